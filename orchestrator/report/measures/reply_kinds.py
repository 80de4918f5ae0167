"""Shares of replies that repeat the option list, contradict themselves, name what is not offered, or are always one letter."""

from collections.abc import Iterator

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.reply_kinds import KINDS, MARKED_PATTERN, leading_letter, reply_kind
from orchestrator.report.measures.endings import VIEW_COLUMNS, state_from_view
from orchestrator.report.run_data import ACROSS, ALONG, RunData, cached_per_run
from sweeps.spec import Protocol

WARNING_PERCENT = 5.0
"""Smallest percentage of replies at which a kind is marked in tables."""
SAME_LETTER, LEAST_LETTERS, MOST_SHARE = "same_letter", 10, 0.95
"""Column of cells that always reply the same letter: at least LEAST_LETTERS replies have a letter, and MOST_SHARE of them the
same one."""


@cached_per_run
def reply_kinds(run_data: RunData) -> pl.DataFrame:
    """Return one row per multiple-choice cell with replies: replies, and percent of them of each kind and ``same_letter``.

    ``unread`` counts replies whose sample is missing, so that their options are not known; they have no kind.
    ``same_letter`` is the share of replies with the commonest letter if it is nearly the only one, else 0.
    """
    turns = _turns(run_data)
    names = ["cell", "model", "scenario", "condition"]
    if turns.is_empty():
        return pl.DataFrame()
    marked = turns.filter(pl.col("reply").str.contains(MARKED_PATTERN))
    kinds = marked.select("cell").with_columns(pl.Series("kind", list(_kinds(run_data, marked)), pl.String))
    counts = kinds.group_by("cell").agg(
        *((pl.col("kind") == kind).sum().cast(pl.Int64).alias(kind) for kind in KINDS),
        pl.col("kind").is_null().sum().cast(pl.Int64).alias("unread"),
    )
    rows = turns.group_by(names).agg(pl.len().cast(pl.Int64).alias("replies")).join(counts, on="cell", how="left")
    rows = rows.join(_same_letter(turns), on="cell", how="left").with_columns(
        pl.col(*KINDS, SAME_LETTER, "unread").fill_null(0)
    )
    shares = ((100 * pl.col(kind) / pl.col("replies")).alias(kind) for kind in (*KINDS, SAME_LETTER))
    return rows.with_columns(*shares).sort("cell")


def _turns(run_data: RunData) -> pl.DataFrame:
    """Return the answered multiple-choice turns of models, with the columns of their views."""
    own = ["key", "cell", "model", "scenario", "condition", "sample_id"]
    episodes = run_data.episodes.filter(~pl.col("model").is_in(list(run_data.baselines)), protocol=Protocol.MCQA.value)
    moves = (
        (name, pl.col("move").is_in(sides).fill_null(False)) for name, sides in (("across", ACROSS), ("along", ALONG))
    )
    turns = run_data.select_turns(episodes).select("key", "turn", "frame", "reply", "move").sort("key", "turn")
    before = [(is_move.cum_sum().over("key") - is_move).cast(pl.Int64).alias(name) for name, is_move in moves]
    named = turns.with_columns(before).join(episodes.lazy().select(own), on="key")
    return named.with_columns(run_data.mode_column).collect()


def _kinds(run_data: RunData, marked: pl.DataFrame) -> Iterator[str | None]:
    """Yield the kind of each reply, None without its sample."""
    for row in marked.select(*VIEW_COLUMNS, "reply", "condition").iter_rows():
        view, reply, condition = tuple(row[:7]), row[7], row[8]
        sample = run_data.samples.get(view[0], {}).get(view[1])
        if sample is None:
            yield None
            continue
        shown = apply_condition(sample, run_data.conditions[condition], run_data.sweep.seed)
        game_view = SCENARIOS[view[0]].view(shown, state_from_view(view))
        yield reply_kind(reply, (*game_view.options, *game_view.categories))


def _same_letter(turns: pl.DataFrame) -> pl.DataFrame:
    """Return cell -> number of replies with the commonest letter, 0 unless nearly all letters are this one."""
    letters = turns.select("cell", pl.col("reply").map_elements(leading_letter, pl.String).alias("letter"))
    counts = letters.filter(pl.col("letter") != "").group_by("cell", "letter").len("count")
    most, total = pl.col("count").max(), pl.col("count").sum()
    only = (total >= LEAST_LETTERS) & (most >= MOST_SHARE * total)
    return counts.group_by("cell").agg(pl.when(only).then(most).otherwise(0).cast(pl.Int64).alias(SAME_LETTER))
