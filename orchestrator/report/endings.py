"""How episodes ended: the kinds of failure and their counts by cell.

Every stored episode has exactly one kind, so the counts of a cell sum to its finished episodes.

A wrong category is told apart by the view it was said of: guessed too early, or guessed wrong on a clear view. With the
samples at hand the rules say which (``Scenario.telling``); without them a view is clear if it is the picture on which the
oracle answered the same sample; without an oracle it stays ``guessed``.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from envs import SCENARIOS
from envs.types import Action, Ending, Mode, Move, State, Verdict
from orchestrator.report.run_data import RunData, once


class Kind(StrEnum):
    """How an episode ended, in the words of its last turn; the first that fits."""

    CORRECT = "correct"
    """Named the right category when it could count."""
    GUESSED_EARLY = "guessed too early"
    """Named a category that was wrong, or could not count yet, while the view was not yet telling."""
    GUESSED_CLEAR = "guessed wrong on a clear view"
    """Named a wrong category although the view showed what the reference view shows."""
    GUESSED = "guessed wrong"
    """Named a wrong category; whether the view was telling is not known."""
    GAVE_UP = "gave up"
    """Chose the abstention."""
    ASKED_WRONG = "asked for the wrong thing"
    """Named a suggestion that counts for nothing here: another repair than the picture needs, or nothing left to ask."""
    LED_ASTRAY = "led out of the video"
    """Only random-proactive: the suggestion counted, and the random move that it made left the video."""
    ASKED_FOR_EVER = "asked for ever"
    """Spent the last turn on one more suggestion."""
    OUTGROWN = "outgrew the model"
    """Asked until the next prompt did not fit the model's context, or held more pictures than it takes."""
    SILENCED = "spent its tokens in silence"
    """The last reply is empty because its tokens were spent before the first word."""
    UNPARSABLE = "unparsable"
    """The last reply names nothing that was shown."""
    ANSWERED = "answered in words"
    """Open-ended: one free answer, which only a judge calls right or wrong."""
    UNPROCESSABLE = "unprocessable"
    """No answer: a picture could not be read, or the processor refused it."""
    REFUSED = "refused"
    """No answer: the provider declined."""
    FAILED = "failed"
    """No answer: the harness gave the episode up."""


PLACE = ["scenario", "sample_id", "mode", "frame", "turn", "across", "along"]
"""Columns of ``RunData.last`` that determine a view."""
SIZE = r"\^\d+$"
"""The end of a picture's name that says its size (``ImageRef.key``); size does not change what a view tells."""


@once
def endings(run_data: RunData) -> pl.DataFrame:
    """One row an episode, sorted by key: key, model, scenario, condition, protocol, cell, sample_id, kind (``Kind``)."""
    names = ["key", "model", "scenario", "condition", "protocol", "cell", "sample_id"]
    last = run_data.last.join(clear(run_data), on="key", how="left", maintain_order="left")
    kinds = last.select("key", _of_last_turn().alias("kind"))
    found = run_data.episodes.select(*names, "ending").join(kinds, on="key", how="left")
    return found.with_columns(_kind().alias("kind")).drop("ending").sort("key")


def taxonomy(run_data: RunData) -> pl.DataFrame:
    """One row cell x kind that occurs: names, kind, count, finished, percent (of the cell's finished episodes)."""
    names = ["model", "scenario", "condition", "protocol", "cell"]
    counted = endings(run_data).group_by(*names, "kind").len("count")
    finished = pl.col("count").sum().over("cell").alias("finished")
    rank = pl.col("kind").replace_strict({kind.value: n for n, kind in enumerate(Kind)}, return_dtype=pl.Int64)
    percent = (100 * pl.col("count") / pl.col("count").sum().over("cell")).alias("percent")
    return counted.with_columns(finished, percent).sort("cell", rank)


@once
def clear(run_data: RunData) -> pl.DataFrame:
    """Whether the last view was telling: key, clear (null where that is not known), how (``rules`` or ``oracle``)."""
    last = run_data.last
    rules = last.select(PLACE).unique(maintain_order=True).with_columns(_by_rules(run_data, last))
    found = last.select("key", *PLACE, "image").join(rules, on=PLACE, how="left", maintain_order="left")
    found = found.join(_oracle_images(run_data), on=["scenario", "sample_id"], how="left", maintain_order="left")
    same = pl.col("image").str.replace(SIZE, "").eq(pl.col("oracle_image").str.replace(SIZE, ""))
    by_oracle = pl.when(pl.col("mode") == Mode.REFERENCE).then(True).otherwise(same)
    hidden = last.select("key", pl.col("condition").is_in(run_data.unseen).alias("hidden"))
    found = found.join(hidden, on="key", maintain_order="left").with_columns(
        by_rules=pl.when("hidden").then(False).otherwise("by_rules")
    )
    how = (
        pl.when(pl.col("by_rules").is_not_null())
        .then(pl.lit("rules"))
        .when(by_oracle.is_not_null())
        .then(pl.lit("oracle"))
    )
    return found.select("key", pl.coalesce("by_rules", by_oracle).alias("clear"), how.alias("how"))


def state_of(row: tuple[str, int, str, int, int, int, int]) -> State:
    """The state before the last reply, from the columns ``PLACE``: all that a view depends on."""
    _, _, mode, frame, turn, across, along = row
    return State(frame=frame, turn=turn, across=across, along=along, mode=Mode(mode))


def _as_played(row: tuple[str, int, str, int, int, int, int]) -> State:
    """Random moves show what moves asked for would show, so their views are judged alike."""
    state = state_of(row)
    return state._replace(mode=Mode.PLAY) if state.mode is Mode.RANDOM else state


def _by_rules(run_data: RunData, last: pl.DataFrame) -> pl.Series:
    """Whether the view is telling, for each distinct place, null where the sample is not at hand."""
    telling: list[bool | None] = []
    for row in last.select(PLACE).unique(maintain_order=True).iter_rows():
        sample = run_data.samples.get(row[0], {}).get(row[1])
        telling.append(None if sample is None else SCENARIOS[row[0]].telling(sample, _as_played(row)))
    return pl.Series("by_rules", telling, dtype=pl.Boolean)


def _oracle_images(run_data: RunData) -> pl.DataFrame:
    """The picture on which the oracle answered each sample in plain play: scenario, sample_id, oracle_image."""
    asked = pl.col("model").is_in(run_data.playing("oracle")) & (pl.col("mode") == Mode.PLAY)
    asked &= ~pl.col("condition").is_in(run_data.unseen)
    right = run_data.last.filter(asked & (pl.col("ending") == Ending.CORRECT))
    first = right.unique(["scenario", "sample_id"], keep="first", maintain_order=True)
    return first.select("scenario", "sample_id", pl.col("image").alias("oracle_image"))


def _of_last_turn() -> pl.Expr:
    """The kind of a wrong ending."""
    guessed = (
        pl.when(pl.col("clear").is_null())
        .then(pl.lit(Kind.GUESSED.value))
        .when(pl.col("clear"))
        .then(pl.lit(Kind.GUESSED_CLEAR.value))
        .otherwise(pl.lit(Kind.GUESSED_EARLY.value))
    )
    return (
        pl.when(pl.col("move").is_in([move.value for move in Move]))
        .then(pl.lit(Kind.LED_ASTRAY.value))
        .when((pl.col("action") == Action.CATEGORY) & (pl.col("category") == Verdict.WRONG))
        .then(guessed)
        .when(pl.col("action") == Action.ABSTENTION)
        .then(pl.lit(Kind.GAVE_UP.value))
        .when(pl.col("action") == Action.SUGGESTION)
        .then(pl.lit(Kind.ASKED_WRONG.value))
        .otherwise(pl.lit(Kind.UNPARSABLE.value))
    )


def _kind() -> pl.Expr:
    """The ending says it, but for a wrong one; a wrong episode without any turn named nothing."""
    named = {
        Ending.CORRECT: Kind.CORRECT,
        Ending.LIMIT: Kind.ASKED_FOR_EVER,
        Ending.OVERFLOW: Kind.OUTGROWN,
        Ending.TRUNCATED: Kind.SILENCED,
        Ending.ANSWERED: Kind.ANSWERED,
        Ending.UNPROCESSABLE: Kind.UNPROCESSABLE,
        Ending.REFUSED: Kind.REFUSED,
        Ending.FAILED: Kind.FAILED,
    }
    said = pl.col("ending").replace_strict(
        {e.value: k.value for e, k in named.items()}, default=None, return_dtype=pl.String
    )
    return pl.coalesce(said, pl.col("kind"), pl.lit(Kind.UNPARSABLE.value))
