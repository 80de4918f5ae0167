"""Every figure of one results.json, computed again from the stored turns by polars and scipy alone."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

IDENTITY = ["model", "scenario", "condition", "protocol", "cell"]
ERRORS = ["unprocessable", "refused", "failed"]
CUT = ["overflow", "truncated", "thoughts_cut"]
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
    low, high = wilson(right.height, n)
    loops = counts.pop("limit")
    return {
        **{name: cell[name] for name in IDENTITY}, "planned": cell["planned"], "finished": rows.height, "scored": n,
        **counts, "errors": sum(counts[name] for name in ERRORS), "correct": right.height,
        "correct_first": right.filter(pl.col("turns") == 1).height, "acc": 100 * right.height / n, "acc_low": low,
        "acc_high": high, "acc_bound": 100 * (right.height + cut) / n,
        "acc_first": 100 * right.filter(pl.col("turns") == 1).height / n, "ps": (turns - n) / n, "loops": 100 * loops / n,
        "loops_bound": 100 * (loops + cut) / n, "turns": turns,
        **{f"share_{name}": 100 * int(scored[name].sum()) / turns for name in SHARES}, **first_replies(cell, scored),
    }  # fmt: skip


def wilson(hits, n):
    """Return the score interval in percent, by solving |share - p| = z sqrt(p (1 - p) / n) for p."""
    z = norm.ppf(0.975)
    roots = np.roots([1 + z * z / n, -(2 * hits / n + z * z / n), (hits / n) ** 2]).real
    return max(0.0, 100 * min(roots)), min(100.0, 100 * max(roots))


def first_replies(cell, scored):
    """Return the shares by the first reply with their intervals, and those of the episodes that ask."""
    asks = scored.filter(pl.col("suggestion") > 0)
    at_once = scored.filter(pl.col("suggestion") == 0)
    gave_up, guessed = (at_once.filter(pl.col(name) > 0).height for name in ("abstention", "category"))
    unread = (pl.col("unparsable") > 0) | (pl.col("ending") == "truncated")
    of_all = {
        "asks": asks.height, "gave_up_at_once": gave_up, "guessed_at_once": guessed,
        "unreadable_at_once": at_once.height - gave_up - guessed, "unreadable": scored.filter(unread).height,
    }  # fmt: skip
    of_asks = {
        "right_if_asked": asks.filter(pl.col("right")).height,
        "limit_if_asked": asks.filter(pl.col("ending") == "limit").height,
    }
    row = {}
    for hits_by_name, n in ((of_all, scored.height), (of_asks, asks.height)):
        for name, hits in hits_by_name.items():
            known = n and (cell["condition"] != "reference" or name == "unreadable")
            shares = (100 * hits / n, *wilson(hits, n)) if known else (None, None, None)
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), shares, strict=True))
    return row


def test_every_figure_is_computed_again(run, recomputed):
    stored = {row["cell"]: row for row in json.loads((run / "results.json").read_text())}
    compared = 0

    assert stored.keys() == recomputed.keys()
    for name, expected in recomputed.items():
        assert stored[name] == pytest.approx(expected, abs=1e-6), name
        compared += len(expected)
    assert compared == sum(map(len, stored.values())) > 2_000
