"""Unparsable replies that a lenient reader understands, and accuracy under the strict and the lenient reading.

Only replies that the benchmark could not parse are read again; each is the last of its episode. No score changes.
"""

from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.answers import letter
from envs.lenient import names_another, read_leniently
from envs.types import Action, Ending
from orchestrator.report.measures.endings import VIEW_COLUMNS, state_from_view
from orchestrator.report.run_data import RunData, cached_per_run
from sweeps.spec import Protocol

COUNTS = ("unparsable", "readable", "otherwise", "would_correct", "disagrees")


@cached_per_run
def lenient_readings(run_data: RunData) -> pl.DataFrame:
    """Return one row per episode that ended with an unparsable reply: key, cell, letter, would.

    ``letter`` is the lenient reading, or null. ``would`` is what the lenient reading would make of the episode: ``correct``,
    ``go on``, ``wrong``, or ``disagrees`` if the reply's letter and text name different options, which count as wrong; null
    without the sample.
    """
    wrong = (pl.col("action") == Action.UNPARSABLE) & (pl.col("ending") == Ending.WRONG)
    last = run_data.last_turns.filter(wrong, protocol=Protocol.MCQA.value)  # judged replies are not read again
    readings = [_read_leniently(run_data, row) for row in last.iter_rows(named=True)]
    schema = dict.fromkeys(("letter", "would"), pl.String)
    return last.select("key", "cell").hstack(pl.DataFrame(readings, schema=schema, orient="row"))


@cached_per_run
def leniency(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell of ``mcqa`` and ``oeg``: scored, and counts of episodes (null where a sample is missing).

    ``unparsable`` counts endings with an unparsable reply, ``readable`` those of them with a lenient reading,
    ``otherwise`` those that it would not leave wrong, ``would_correct`` those that would be correct at once,
    ``disagrees`` those whose letter and text differ. Accuracy in percent under two readings: ``acc``, the benchmark's own;
    ``acc_lenient`` counts those that would be correct at once, ``acc_lenient_most`` also all that would go on.
    """
    would, read = pl.col("would"), pl.col("letter").is_not_null()
    counts = lenient_readings(run_data).group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("unparsable"),
        read.sum().cast(pl.Int64).alias("readable"),
        would.is_in(["correct", "go on"]).sum().cast(pl.Int64).alias("otherwise"),
        would.eq("correct").sum().cast(pl.Int64).alias("would_correct"),
        would.eq("disagrees").sum().cast(pl.Int64).alias("disagrees"),
    )  # fmt: skip
    names = ["cell", "model", "scenario", "condition", "protocol", "scored", "correct"]
    rows = run_data.rows.filter(~pl.col("protocol").is_in([Protocol.OEG_MULTI, Protocol.TOOLS])).select(names)
    rows = rows.join(counts, on="cell", how="left").with_columns(pl.col(COUNTS).fill_null(0))
    is_readable = pl.when(pl.col("scenario").is_in(list(run_data.samples)) | (pl.col("unparsable") == 0))
    rows = rows.with_columns(is_readable.then(pl.col(COUNTS[1:])).name.keep())
    gains = {"acc": pl.lit(0), "acc_lenient": pl.col("would_correct"), "acc_lenient_most": pl.col("otherwise")}
    right, scored = pl.col("correct"), pl.col("scored")
    accuracies = (pl.when(scored > 0).then(100 * (right + gain) / scored).alias(name) for name, gain in gains.items())
    return rows.with_columns(accuracies).drop("correct").sort("cell")


def _read_leniently(run_data: RunData, row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the lenient letter of a last turn, and what it would make of the episode."""
    reply, sample = row["reply"], run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    if sample is None:
        return None, None
    shown = apply_condition(sample, run_data.conditions[row["condition"]], run_data.sweep.seed)
    state, game = state_from_view(tuple(row[name] for name in VIEW_COLUMNS)), SCENARIOS[row["scenario"]]
    view = game.view(shown, state)
    options = (*view.options, *view.categories)

    index = read_leniently(reply, len(options), options)
    if index is None or names_another(reply, index, options):
        return None, "wrong" if index is None else "disagrees"
    after, turn = game.step(shown, state, letter(index))
    goes_on = "wrong" if turn.move is None else "go on"
    return letter(index), "correct" if after.ending is Ending.CORRECT else goes_on
