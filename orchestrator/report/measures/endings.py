"""Kinds of endings, their counts by cell, and what a lenient reader makes of unparsable replies.

Every stored episode has exactly one kind, so the counts of a cell sum to its finished episodes. A wrong category is classified
by the last view: guessed too early, or guessed wrong on a clear view (``Scenario.telling``); without the samples, ``guessed``.
Only replies that the benchmark could not parse are read leniently; each is the last of its episode. No score changes.
"""

from enum import StrEnum
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.answers import letter
from envs.lenient import names_another, read_leniently
from envs.types import Action, Ending, Mode, Move, State, Verdict
from orchestrator.report.run_data import RunData, cached_per_run, rank_of
from sweeps.spec import Protocol


class EndingKind(StrEnum):
    """Kind of an episode's ending; ``texts.toml`` says each in a sentence."""

    CORRECT = "correct"
    GUESSED_EARLY = "guessed too early"
    GUESSED_CLEAR = "guessed wrong on a clear view"
    GUESSED = "guessed wrong"
    GAVE_UP = "gave up"
    ASKED_WRONG = "asked for the wrong thing"
    LED_ASTRAY = "led out of the video"
    ASKED_TO_LIMIT = "asked to the limit"
    OUTGROWN = "outgrew the model"
    SILENCED = "spent its tokens in silence"
    UNPARSABLE = "unparsable"
    ANSWERED = "answered in words"
    UNPROCESSABLE = "unprocessable"
    REFUSED = "refused"
    FAILED = "failed"


VIEW_COLUMNS = ["scenario", "sample_id", "mode", "frame", "turn", "across", "along"]
"""Columns of ``RunData.last_turns`` that determine a view."""
READINGS = ("unparsable", "readable", "otherwise", "would_correct", "disagrees")


@cached_per_run
def endings(run_data: RunData) -> pl.DataFrame:
    """Return one row per episode, sorted by key: key, model, scenario, condition, protocol, cell, sample_id, kind."""
    names = ["key", "model", "scenario", "condition", "protocol", "cell", "sample_id"]
    last = run_data.last_turns.join(view_clarity(run_data), on="key", how="left", maintain_order="left")
    kinds = last.select("key", wrong_kind().alias("kind"))
    rows = run_data.episodes.select(*names, "ending").join(kinds, on="key", how="left")
    return rows.with_columns(kind_of_ending().alias("kind")).drop("ending").sort("key")


def ending_counts(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell and kind that occurs: names, kind, count, finished, percent (of the cell's finished episodes)."""
    names = ["model", "scenario", "condition", "protocol", "cell"]
    kinds = endings(run_data).group_by(*names, "kind").len("count")
    kinds = kinds.with_columns(finished=pl.col("count").sum().over("cell")).sort("cell", rank_of("kind", EndingKind))
    return kinds.with_columns(percent=100 * pl.col("count") / pl.col("finished"))


@cached_per_run
def view_clarity(run_data: RunData) -> pl.DataFrame:
    """Return whether the last view shows the category by the rules: key, clear (null without the sample)."""
    last = run_data.last_turns
    views = last.select(VIEW_COLUMNS).unique(maintain_order=True)
    clear = pl.Series("clear", [_is_clear(run_data, row) for row in views.iter_rows()], pl.Boolean)
    rows = last.join(views.with_columns(clear), on=VIEW_COLUMNS, how="left", maintain_order="left")
    is_hidden, is_reference = pl.col("condition").is_in(run_data.unseen_conditions), pl.col("mode") == Mode.REFERENCE
    shown = pl.when(is_hidden).then(False).when(is_reference).then(True)
    return rows.select("key", shown.otherwise("clear").alias("clear"))


def _is_clear(run_data: RunData, row: tuple[Any, ...]) -> bool | None:
    sample, state = run_data.samples.get(row[0], {}).get(row[1]), state_from_view(row)
    if state.mode is Mode.RANDOM:  # moves that were drawn at random show the same views as requested ones
        state = state._replace(mode=Mode.PLAY)
    return None if sample is None else SCENARIOS[row[0]].telling(sample, state)


def state_from_view(row: tuple[Any, ...]) -> State:
    """Return the state before the last reply from a row of ``VIEW_COLUMNS``."""
    _, _, mode, frame, turn, across, along = row
    return State(frame=frame, turn=turn, across=across, along=along, mode=Mode(mode))


def wrong_kind() -> pl.Expr:
    """Return the kind of a wrong ending, from its last turn: the first of ``kinds`` that applies."""
    guessed, clear = (pl.col("action") == Action.CATEGORY) & (pl.col("category") == Verdict.WRONG), pl.col("clear")
    kinds = {
        EndingKind.LED_ASTRAY: pl.col("move").is_in([move.value for move in Move]),
        EndingKind.GUESSED: guessed & clear.is_null(),
        EndingKind.GUESSED_CLEAR: guessed & clear,
        EndingKind.GUESSED_EARLY: guessed,
        EndingKind.GAVE_UP: pl.col("action") == Action.ABSTENTION,
        EndingKind.ASKED_WRONG: pl.col("action") == Action.SUGGESTION,
        EndingKind.UNPARSABLE: pl.lit(True),
    }
    return pl.coalesce(pl.when(applies).then(pl.lit(kind.value)) for kind, applies in kinds.items())


def kind_of_ending() -> pl.Expr:
    """Return the kind of an ending; of a wrong one, the kind of its last turn, or ``unparsable`` if it has none."""
    kinds = {
        Ending.CORRECT: EndingKind.CORRECT, Ending.LIMIT: EndingKind.ASKED_TO_LIMIT, Ending.OVERFLOW: EndingKind.OUTGROWN,
        Ending.TRUNCATED: EndingKind.SILENCED, Ending.THOUGHTS_CUT: EndingKind.SILENCED, Ending.ANSWERED: EndingKind.ANSWERED,
        Ending.UNPROCESSABLE: EndingKind.UNPROCESSABLE, Ending.REFUSED: EndingKind.REFUSED, Ending.FAILED: EndingKind.FAILED,
    }  # fmt: skip
    by_ending = pl.col("ending").replace_strict(kinds, default=None, return_dtype=pl.String)
    return pl.coalesce(by_ending, pl.col("kind"), pl.lit(EndingKind.UNPARSABLE.value))


# -- the lenient reading -------------------------------------------------------------------------------------------------
def lenient_readings(run_data: RunData) -> pl.DataFrame:
    """Return one row per episode that ended with an unparsable reply, read again leniently: key, cell, letter, would.

    ``letter`` is the lenient reading, or null; ``would`` what it would make of the episode: ``correct``, ``go on``, ``wrong``,
    or ``disagrees`` if the reply's letter and text name different options, which count as wrong; null without the sample.
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
        unparsable=pl.len(), readable=read.sum(), otherwise=would.is_in(["correct", "go on"]).sum(),
        would_correct=would.eq("correct").sum(), disagrees=would.eq("disagrees").sum(),
    ).cast({pl.UInt32: pl.Int64})  # fmt: skip
    names = ["cell", "model", "scenario", "condition", "protocol", "scored", "correct"]
    rows = run_data.rows.filter(~pl.col("protocol").is_in([Protocol.OEG_MULTI, Protocol.TOOLS])).select(names)
    rows = rows.join(counts, on="cell", how="left").with_columns(pl.col(READINGS).fill_null(0))
    is_readable = pl.when(pl.col("scenario").is_in(list(run_data.samples)) | (pl.col("unparsable") == 0))
    rows = rows.with_columns(is_readable.then(pl.col(READINGS[1:])).name.keep())
    gains = {"acc": pl.lit(0), "acc_lenient": pl.col("would_correct"), "acc_lenient_most": pl.col("otherwise")}
    right, scored = pl.col("correct"), pl.col("scored")
    accuracies = (pl.when(scored > 0).then(100 * (right + gain) / scored).alias(name) for name, gain in gains.items())
    return rows.with_columns(accuracies).drop("correct").sort("cell")


def _read_leniently(run_data: RunData, row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the lenient letter of a last turn, and what it would make of the episode."""
    reply, sample = row["reply"], run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    if sample is None:
        return None, None
    sample = apply_condition(sample, run_data.conditions[row["condition"]], run_data.sweep.seed)
    state, game = state_from_view(tuple(row[name] for name in VIEW_COLUMNS)), SCENARIOS[row["scenario"]]
    view = game.view(sample, state)
    options = (*view.options, *view.categories)

    index = read_leniently(reply, len(options), options)
    if index is None or names_another(reply, index, options):
        return None, "wrong" if index is None else "disagrees"
    after, turn = game.step(sample, state, letter(index))
    goes_on = "wrong" if turn.move is None else "go on"
    return letter(index), "correct" if after.ending is Ending.CORRECT else goes_on
