"""Unparsable replies that a lenient reader understands, and accuracy under the strict and the lenient reading.

Only replies that the benchmark could not parse are read again; each is the last of its episode. No score changes.
"""

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.answers import letter
from envs.lenient import names_another, read_leniently
from envs.types import Action, Ending
from orchestrator.report.measures.endings import VIEW_COLUMNS, state_from_view
from orchestrator.report.measures.mean_bounds import add_bounds
from orchestrator.report.run_data import RunData, cached_per_run
from sweeps.spec import Protocol

READINGS = ("acc", "acc_lenient", "acc_lenient_most")
"""Accuracy under each reading; ``_most`` is the accuracy if every episode that would go on ended right."""
COUNTS = ("unparsable", "readable", "otherwise", "would_correct", "disagrees")


@cached_per_run
def lenient_readings(run_data: RunData) -> pl.DataFrame:
    """Return one row per episode that ended with an unparsable reply: key, cell, letter, would.

    ``letter`` is the lenient reading, or null. ``would`` is what the lenient reading would make of the episode: ``correct``,
    ``go on``, ``wrong``, or ``disagrees`` if the reply's letter and text name different options, which count as wrong; null if a
    letter was read but the sample is missing (then any of 26 letters is read).
    """
    wrong = (pl.col("action") == Action.UNPARSABLE) & (pl.col("ending") == Ending.WRONG)
    last = run_data.last_turns.filter(wrong, protocol=Protocol.MCQA.value)  # judged replies are not read again
    replies = last.select(*VIEW_COLUMNS, "reply", "condition").iter_rows()
    readings = [_read_leniently(run_data, tuple(row[:7]), *row[7:]) for row in replies]
    schema = dict.fromkeys(("letter", "would"), pl.String)
    return last.select("key", "cell").hstack(pl.DataFrame(readings, schema=schema, orient="row"))


@cached_per_run
def leniency(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell of ``mcqa`` and ``oeg``: unparsable, readable, otherwise (episodes).

    ``unparsable`` counts endings with an unparsable reply, ``readable`` those of them with a lenient reading,
    ``otherwise`` those that it would not leave wrong, ``would_correct`` those that would be correct at once,
    ``disagrees`` those whose letter and text differ. ``share_readable`` is percent of the unparsable,
    ``share_otherwise`` percent of the scored episodes (null where a reply was read without its sample).

    Accuracy in percent under two readings: ``acc``, the benchmark's own; ``acc_lenient`` counts those that would be correct at
    once, ``acc_lenient_most`` also all that would go on, whose ending is unknown. Each has 95% bounds (``_low``, ``_high``).
    """
    would, read = pl.col("would"), pl.col("letter").is_not_null()
    counts = lenient_readings(run_data).group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("unparsable"),
        read.sum().cast(pl.Int64).alias("readable"),
        would.is_in(["correct", "go on"]).sum().cast(pl.Int64).alias("otherwise"),
        would.eq("correct").sum().cast(pl.Int64).alias("would_correct"),
        would.eq("disagrees").sum().cast(pl.Int64).alias("disagrees"),
        (read & would.is_null()).any().alias("unknown"),
    )  # fmt: skip
    names = ["cell", "model", "scenario", "condition", "protocol", "scored", "correct"]
    rows = run_data.rows.filter(~pl.col("protocol").is_in([Protocol.OEG_MULTI, Protocol.TOOLS])).select(names)
    rows = rows.join(counts, on="cell", how="left").with_columns(
        pl.col(COUNTS).fill_null(0), pl.col("unknown").fill_null(False)
    )
    rows = add_bounds(rows, _read_episodes(run_data), run_data, dict.fromkeys(READINGS))
    determined = pl.when(~pl.col("unknown"))
    return rows.with_columns(
        pl.when(pl.col("unparsable") > 0).then(100 * pl.col("readable") / pl.col("unparsable")).alias("share_readable"),
        determined.then(pl.col("otherwise")).alias("otherwise"),
        determined.then(pl.col("would_correct")).alias("would_correct"),
        pl.when(~pl.col("unknown") & (pl.col("scored") > 0))
        .then(100 * pl.col("otherwise") / pl.col("scored"))
        .alias("share_otherwise"),
        *_accuracy_columns(),
    ).drop("unknown", "correct").sort("cell")  # fmt: skip


def _read_episodes(run_data: RunData) -> pl.DataFrame:
    """Return the scored episodes: cell, scenario, sample_id, and whether each is right under each of ``READINGS``."""
    episodes = run_data.scored.select("key", "cell", "scenario", "sample_id", acc="correct")
    joined = episodes.join(lenient_readings(run_data).select("key", "would"), on="key", how="left")
    would = pl.col("would").fill_null("")
    return joined.with_columns(
        acc_lenient=pl.col("acc") | (would == "correct"),
        acc_lenient_most=pl.col("acc") | would.is_in(["correct", "go on"]),
    )


def _accuracy_columns() -> list[pl.Expr]:
    """Return accuracy under each reading with its bounds, null if unknown."""
    lenient = ~pl.col("unknown")
    gains = {
        "acc": (pl.lit(True), pl.lit(0)),
        "acc_lenient": (lenient, pl.col("would_correct")),
        "acc_lenient_most": (lenient, pl.col("otherwise")),
    }
    right, scored = pl.col("correct"), pl.col("scored")
    values = [
        pl.when(determined & (scored > 0)).then(100 * (right + gain) / scored).alias(name)
        for name, (determined, gain) in gains.items()
    ]
    bounds = [
        pl.when(determined).then(pl.col(f"{name}_{end}")).alias(f"{name}_{end}")
        for name, (determined, _) in gains.items()
        for end in ("low", "high")
    ]
    return [*values, *bounds]


def _read_leniently(
    run_data: RunData, view: tuple[str, int, str, int, int, int, int], reply: str, condition: str
) -> tuple[str | None, str | None]:
    """Return the lenient letter, and what it would make of the episode."""
    sample = run_data.samples.get(view[0], {}).get(view[1])
    if sample is None:
        index = read_leniently(reply)
        return (None, "wrong") if index is None else (letter(index), None)
    staged_sample = apply_condition(sample, run_data.conditions[condition], run_data.sweep.seed)
    state, game = state_from_view(view), SCENARIOS[view[0]]
    game_view = game.view(staged_sample, state)
    options = (*game_view.options, *game_view.categories)

    index = read_leniently(reply, len(options), options)
    if index is None or names_another(reply, index, options):
        return None, "wrong" if index is None else "disagrees"
    after, turn = game.step(staged_sample, state, letter(index))
    goes_on = "wrong" if turn.move is None else "go on"
    return letter(index), "correct" if after.ending is Ending.CORRECT else goes_on
