"""A comparison of a run with a repeat: changed replies, verdicts, endings and cells.

It covers episodes with equal keys, complete on both sides and with the same pictures, and their turns that start from the same
state of the game: up to the first changed verdict, and all turns under conditions that ask about each picture separately
(``Condition.unscored``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from envs.types import UNSCORED, Ending
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.scores.metrics import BITS
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.flip_rates import CELLS, MEASURES, RATES
from orchestrator.storage.episode_store import turns
from orchestrator.storage.run_folder import planned_episodes
from orchestrator.storage.verdict_store import verdicts
from sweeps.spec import Sweep

VERDICT = ("option", "category", "action", "move", "read_as")
"""Columns of a turn with the parsing of its reply and the response of the game."""
SIDES = ("before", "after")
NO_RATE: Mapping[str, Any] = {"changed": 0, "of": 0, "percent": None, "low": None, "high": None}
GROUP = ("scenario", "sample_id")
"""A sample is a cluster, because its turns, conditions and models are not independent."""


@dataclass(frozen=True)
class Pairs:
    """The episodes of one setting that both sides have, and their turns."""

    episodes: pl.DataFrame
    """key, cell, model, scenario, condition, protocol, sample_id; ending_changed; ``right_before`` and ``right_after``, null
    where the episode is not scored; correct_changed."""
    turns: pl.DataFrame
    """key, turn, model, scenario, sample_id, reply_changed, verdict_changed, action_before, action_after."""
    missing: int
    """Episodes of the run that the repeat lacks or failed to play."""


def pair_episodes(sweep: Sweep, folder: Path, repeated: Path, rows: pl.DataFrame) -> Pairs:
    """Pair episodes of a run (``rows`` of ``EPISODES``) with those of one of its repeats."""
    repeat_rows = planned_episodes(repeated).filter(pl.col("ending") != Ending.FAILED).collect()
    columns = ["key", "cell", "model", "scenario", "condition", "protocol", "sample_id"]
    both = rows.join(repeat_rows.select("key"), on="key", how="semi").sort("key").select(*columns)
    judge = own_judge_key(sweep)
    outcomes = [
        _outcomes(part, at, judge).rename({"right": f"right_{side}", "ending": f"ending_{side}"})
        for part, at, side in zip((rows, repeat_rows), (folder, repeated), SIDES, strict=True)
    ]
    for outcome in outcomes:
        both = both.join(outcome, on="key", how="left")
    both = both.with_columns(
        ending_changed=pl.col("ending_before") != pl.col("ending_after"),
        correct_changed=pl.col("right_before") != pl.col("right_after"),
    )
    independent = [condition.name for condition in sweep.conditions if condition.unscored]
    return Pairs(both, _turns(folder, repeated, both, judge, independent), rows.height - both.height)


def rates(pairs: Pairs, setting: str) -> pl.DataFrame:
    """Return one row per model (``flip_rates.RATES``): changed and total counts, percent and 95% interval of each measure.

    The interval is that of a proportion at the effective sample size of clusters: 40 unchanged turns of 5 samples count like 5
    independent turns.
    """
    rows = []
    for (model,), episodes in pairs.episodes.group_by("model", maintain_order=True):
        model_turns = pairs.turns.filter(model=model)
        measured = {
            "reply": _rate(model_turns, "reply_changed"),
            "verdict": _rate(model_turns, "verdict_changed"),
            "ending": _rate(episodes, "ending_changed"),
            "correct": _rate(episodes, "correct_changed"),
            "cell": _cells_changed(episodes),
        }
        parts = {f"{name}_{part}": value for name in MEASURES for part, value in measured[name].items()}
        rows.append({"setting": setting, "model": model, "episodes": episodes.height, **parts})
    return pl.DataFrame(rows, schema=RATES, orient="row")


def cells(pairs: Pairs, setting: str) -> pl.DataFrame:
    """Return one row per cell (``flip_rates.CELLS``): acc before and after on the same episodes, and the difference."""
    rows = []
    scored = pairs.episodes.drop_nulls("correct_changed")
    for (cell,), episodes in scored.group_by("cell", maintain_order=True):
        before, after = (episodes[f"right_{side}"].cast(pl.Int64).to_numpy() for side in SIDES)
        low, high = score_interval([stratum_from_values(100 * (after - before), -100, 100)])
        rows.append({
            "setting": setting, "cell": cell,
            **{name: episodes[name][0] for name in ("model", "scenario", "condition", "protocol")},
            "n": episodes.height, "acc_before": 100 * float(before.mean()), "acc_after": 100 * float(after.mean()),
            "difference": 100 * float((after - before).mean()), "difference_low": low, "difference_high": high,
            "lost": int((before > after).sum()), "won": int((after > before).sum()),
        })  # fmt: skip
    return pl.DataFrame(rows, schema=CELLS, orient="row")


def changed_turns(pairs: Pairs, setting: str) -> pl.DataFrame:
    """Return one row per turn with a changed reply: setting, key, turn, and the action before and after."""
    rows = pairs.turns.filter("reply_changed")
    return rows.select(
        pl.lit(setting).alias("setting"), "key", "turn", "verdict_changed", "action_before", "action_after"
    )


def _outcomes(episodes: pl.DataFrame, folder: Path, judge: str) -> pl.DataFrame:
    """Return key, ending and right: by the judge for open-ended answers in one turn, by the game for all others."""
    judged = verdicts(folder).filter(pl.col("judge") == judge).select("key", "aggregate").collect()
    answered, unscored = pl.col("ending") == Ending.ANSWERED, pl.col("ending").is_in(UNSCORED)
    game = pl.when(~unscored).then(pl.col("correct"))
    rows = episodes.join(judged, on="key", how="left")
    return rows.select("key", "ending", pl.when(answered).then(pl.col("aggregate")).otherwise(game).alias("right"))


def _turns(folder: Path, repeated: Path, both: pl.DataFrame, judge: str, independent: Sequence[str]) -> pl.DataFrame:
    """Return the turns that start from the same state on both sides; in ``independent`` conditions all of them do."""
    sides = [_replies(at, both, judge) for at in (folder, repeated)]
    paired = sides[0].join(sides[1], on=["key", "turn"], suffix="_after").sort("key", "turn")
    columns = (*VERDICT, *(f"judged_{bit}" for bit in BITS))
    verdict = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_after")) for name in columns)
    comparisons = paired.with_columns(reply_changed=pl.col("reply") != pl.col("reply_after"), verdict_changed=verdict)
    earlier = pl.col("verdict_changed").cast(pl.Int64).cum_sum().shift(1, fill_value=0).over("key")
    names = both.select("key", "model", "condition", "scenario", "sample_id")
    compared = comparisons.with_columns(earlier=earlier).join(names, on="key", how="left", maintain_order="left")
    same = compared.filter((pl.col("earlier") == 0) | pl.col("condition").is_in(independent))
    return same.select(
        "key", "turn", "model", *GROUP, "reply_changed", "verdict_changed",
        pl.col("action").alias("action_before"), "action_after",
    )  # fmt: skip


def _replies(folder: Path, both: pl.DataFrame, judge: str) -> pl.DataFrame:
    """Return the turns of these episodes, with the judge's bits on open-ended answers."""
    judged = verdicts(folder).filter(pl.col("judge") == judge)
    bits = judged.select("key", pl.col(BITS).name.prefix("judged_"))
    rows = turns(folder).join(both.lazy().select("key"), on="key", how="semi")
    return rows.select("key", "turn", "reply", *VERDICT).join(bits, on="key", how="left").collect()


def _rate(rows: pl.DataFrame, name: str) -> Mapping[str, Any]:
    """Return changed and total counts, percent and its interval; null if there is nothing to compare."""
    comparable = rows.drop_nulls(name)
    if comparable.is_empty():
        return NO_RATE
    groups = comparable.select(pl.struct(GROUP).rank("dense")).to_series().to_numpy().astype(np.int64)
    values = comparable[name].cast(pl.Int64).to_numpy()
    share, size = float(values.mean()), effective_size(values, groups)
    low, high = proportion_interval(share * size, size)
    return _percent(int(values.sum()), len(values), low, high)


def _cells_changed(episodes: pl.DataFrame) -> Mapping[str, Any]:
    """Return the rate of cells with another accuracy on the same episodes; cells count as independent."""
    scored = episodes.drop_nulls("correct_changed").with_columns(pl.col("right_before", "right_after").cast(pl.Int64))
    sums = scored.group_by("cell").agg(pl.col("right_before", "right_after").sum())
    count = sums.filter(pl.col("right_before") != pl.col("right_after")).height
    if not sums.height:
        return NO_RATE
    return _percent(count, sums.height, *proportion_interval(count, sums.height))


def _percent(count: int, of: int, low: float, high: float) -> dict[str, Any]:
    return {"changed": count, "of": of, "percent": 100 * count / of, "low": 100 * low, "high": 100 * high}
