"""Every figure of one results.json, computed again from the stored turns by polars and scipy alone."""

import json

import polars as pl
import pytest
from scipy.stats import norm

IDENTITY = ["model", "scenario", "condition", "protocol", "cell"]
ERRORS = ["unprocessable", "refused", "failed"]
CUT = ["overflow", "truncated"]
SHARES = ("suggestion", "abstention", "category", "unparsable")


@pytest.fixture(scope="module")
def recomputed(run):
    """Return the cells of the run by name, each with its figures."""
    planned = pl.DataFrame(json.loads((run / "plan.json").read_text())["cells"])
    episodes = pl.read_parquet(run / "episodes" / "*.parquet").select("key", "cell", "ending")
    turns = pl.read_parquet(run / "turns" / "*.parquet").sort("key", "turn")
    action = pl.col("action")
    played = turns.group_by("key", maintain_order=True).agg(
        pl.len().alias("turns"),
        pl.col("category").last().eq("correct").alias("right") & action.last().eq("category").alias("settled"),
        *[action.eq(name).sum().alias(name) for name in SHARES],
    )
    rows = episodes.join(played, on="key", how="left")
    cells = {}
    for cell in planned.iter_rows(named=True):
        cells[cell["cell"]] = figures(cell, rows.filter(pl.col("cell") == cell["cell"]))
    return cells


def figures(cell, rows):
    """Return what results.json should say of a cell with these episodes."""
    counts = {name: rows.filter(pl.col("ending") == name).height for name in (*ERRORS, *CUT, "limit")}
    scored = rows.filter(~pl.col("ending").is_in(ERRORS))
    n, turns = scored.height, int(scored["turns"].sum())
    right = scored.filter(pl.col("right"))
    cut = sum(counts[name] for name in CUT)
    low, high = agresti_coull(right.height, n)
    loops = counts.pop("limit")
    return {
        **{name: cell[name] for name in IDENTITY}, "planned": cell["planned"], "finished": rows.height, "scored": n,
        **counts, "errors": sum(counts[name] for name in ERRORS), "correct": right.height,
        "correct_first": right.filter(pl.col("turns") == 1).height, "acc": 100 * right.height / n, "acc_low": low,
        "acc_high": high, "acc_bound": 100 * (right.height + cut) / n,
        "acc_first": 100 * right.filter(pl.col("turns") == 1).height / n, "ps": (turns - n) / n, "loops": 100 * loops / n,
        "loops_bound": 100 * (loops + cut) / n, "turns": turns,
        **{f"share_{name}": 100 * int(scored[name].sum()) / turns for name in SHARES},
    }  # fmt: skip


def agresti_coull(hits, n):
    """Return Agresti and Coull's interval with Student's quantile of n + 30 by its first term, in percent."""
    z = norm.ppf(0.975)
    share = (hits + z * z / 2) / (n + z * z)
    half = (z + (z**3 + z) / (4 * (n + 30))) * (share * (1 - share) / (n + z * z)) ** 0.5
    return max(0.0, 100 * (share - half)), min(100.0, 100 * (share + half))


def test_every_figure_is_computed_again(run, recomputed):
    stored = {row["cell"]: row for row in json.loads((run / "results.json").read_text())}
    compared = 0

    assert stored.keys() == recomputed.keys()
    for name, expected in recomputed.items():
        assert stored[name] == pytest.approx(expected, abs=1e-6), name
        compared += len(expected)
    assert compared == sum(map(len, stored.values())) > 2_000
