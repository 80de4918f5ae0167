"""How many unparsable replies a lenient reader understands, by cell, and accuracy under strict, lenient and fuzzy reading.

No other reading changes a score: it stands beside the verdict.

Only a reply that the benchmark could not parse is read again, and it can be the last of its episode alone.
"""

from __future__ import annotations

import polars as pl

from actors.prompts import staged
from envs import SCENARIOS
from envs.answers import letter
from envs.fuzzy import fuzzy
from envs.lenient import lenient
from envs.types import Action, Ending
from orchestrator.report.endings import PLACE, state_of
from orchestrator.report.run_data import RunData, once
from sweeps.spec import Protocol


@once
def readings(run_data: RunData) -> pl.DataFrame:
    """One row an episode that ended with an unparsable reply: key, cell, letter, would, would_fuzzy.

    ``letter`` is the lenient reading, null where there is none. ``would``: ``correct`` or ``go on`` where the lenient reading
    would have ended the episode otherwise, ``wrong`` where not; null without the sample (then any of 26 letters is read).
    ``would_fuzzy`` is the same of the fuzzy reading (``envs.fuzzy``), null without the sample.
    """
    wrong = (pl.col("action") == Action.UNPARSABLE) & (pl.col("ending") == Ending.WRONG)
    last = run_data.last.filter(wrong, protocol=Protocol.MCQA.value)  # what a judge has read is not read again
    replies = last.select(*PLACE, "reply", "condition").iter_rows()
    found = [_read(run_data, tuple(row[:7]), *row[7:]) for row in replies]
    return last.select("key", "cell").with_columns(
        pl.Series("letter", [one[0] for one in found], dtype=pl.String),
        pl.Series("would", [one[1] for one in found], dtype=pl.String),
        pl.Series("would_fuzzy", [one[2] for one in found], dtype=pl.String),
    )


@once
def leniency(run_data: RunData) -> pl.DataFrame:
    """One row a planned cell, but of ``oeg-multi``, which a judge reads, and of ``tools``: unparsable (that ended so), readable,
    otherwise.

    ``share_readable`` is percent of the unparsable, ``share_otherwise`` percent of the scored episodes (null where the
    samples are not at hand and something was read); ``would_correct`` counts those that would be correct at once.

    Accuracy in percent under three readings: ``acc``, the benchmark's own; ``acc_lenient`` and ``acc_fuzzy`` count those that
    would be correct at once, ``acc_lenient_most`` and ``acc_fuzzy_most`` also all that would go on, whose end nobody knows.
    """
    would, read, fuzzy = pl.col("would"), pl.col("letter").is_not_null(), pl.col("would_fuzzy")
    counted = readings(run_data).group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("unparsable"),
        read.sum().cast(pl.Int64).alias("readable"),
        would.is_in(["correct", "go on"]).sum().cast(pl.Int64).alias("otherwise"),
        would.eq("correct").sum().cast(pl.Int64).alias("would_correct"),
        (read & would.is_null()).any().alias("unknown"),
        fuzzy.is_null().any().alias("blind"),
        fuzzy.eq("correct").sum().cast(pl.Int64).alias("fuzzy_correct"),
        fuzzy.is_in(["correct", "go on"]).sum().cast(pl.Int64).alias("fuzzy_otherwise"),
    )  # fmt: skip
    names = ["cell", "model", "scenario", "condition", "protocol", "scored", "correct"]
    rows = (
        run_data.rows.filter(~pl.col("protocol").is_in([Protocol.OEG_MULTI, Protocol.TOOLS]))
        .select(names)
        .join(counted, on="cell", how="left")
    )
    rows = rows.with_columns(
        pl.col("unparsable", "readable", "otherwise", "would_correct", "fuzzy_correct", "fuzzy_otherwise").fill_null(0),
        pl.col("unknown", "blind").fill_null(False),
    )
    known = pl.when(~pl.col("unknown"))
    return rows.with_columns(
        pl.when(pl.col("unparsable") > 0).then(100 * pl.col("readable") / pl.col("unparsable")).alias("share_readable"),
        known.then(pl.col("otherwise")).alias("otherwise"),
        known.then(pl.col("would_correct")).alias("would_correct"),
        pl.when(~pl.col("unknown") & (pl.col("scored") > 0))
        .then(100 * pl.col("otherwise") / pl.col("scored"))
        .alias("share_otherwise"),
        *_accuracies(),
    ).drop("unknown", "blind", "correct", "fuzzy_correct", "fuzzy_otherwise").sort("cell")  # fmt: skip


def _accuracies() -> list[pl.Expr]:
    """Accuracy under each reading, null where it is not known."""
    lenient, fuzzy = ~pl.col("unknown"), ~pl.col("blind")
    gained = {
        "acc": (pl.lit(True), pl.lit(0)),
        "acc_lenient": (lenient, pl.col("would_correct")),
        "acc_lenient_most": (lenient, pl.col("otherwise")),
        "acc_fuzzy": (fuzzy, pl.col("fuzzy_correct")),
        "acc_fuzzy_most": (fuzzy, pl.col("fuzzy_otherwise")),
    }
    right, scored = pl.col("correct"), pl.col("scored")
    return [
        pl.when(known & (scored > 0)).then(100 * (right + more) / scored).alias(name)
        for name, (known, more) in gained.items()
    ]


def _read(
    run_data: RunData, place: tuple[str, int, str, int, int, int, int], reply: str, condition: str
) -> tuple[str | None, str | None, str | None]:
    """The lenient letter, and what would have come of the lenient and of the fuzzy reading."""
    sample = run_data.samples.get(place[0], {}).get(place[1])
    if sample is None:
        found = lenient(reply)
        return (None, "wrong", None) if found is None else (letter(found), None, None)
    shown = staged(sample, run_data.conditions[condition], run_data.sweep.seed)
    state, game = state_of(place), SCENARIOS[place[0]]
    view = game.view(shown, state)
    options = (*view.options, *view.categories)

    def would(index: int | None) -> str:
        if index is None:
            return "wrong"
        after, turn = game.step(shown, state, letter(index))
        if after.ending is Ending.CORRECT:
            return "correct"
        return "wrong" if turn.move is None else "go on"

    index = lenient(reply, len(options), options)
    return None if index is None else letter(index), would(index), would(fuzzy(reply, options))
