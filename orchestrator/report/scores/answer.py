"""Does the model ask? The shares of episodes by their first reply, and what becomes of those that ask.

A game goes on only after a suggestion, so an episode with a suggestion began with one.
"""

import shlex
from collections.abc import Collection, Container, Iterator
from pathlib import Path

import polars as pl

from actors.text.printable import printable
from envs.errors import RunFolderError
from envs.plural import pluralize
from envs.thoughts import strip_thinking
from envs.types import Action, Ending
from orchestrator.report.statistics.proportion import share_columns
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.schemas import UNREADABLE
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Sweep

FIRST_REPLIES = ("asks", "gave_up_at_once", "guessed_at_once", "unreadable_at_once")
"""Shares of the scored episodes by their first reply, in percent; they sum to 100."""
ANSWERS = (*FIRST_REPLIES, "unreadable")
"""``unreadable`` is the share of scored episodes that a reply ended which names no option, at any turn."""
IF_ASKED = {"right_if_asked": "correct", "limit_if_asked": "limit"}
"""Share of the episodes that ask -> the column of its episodes: right in the end, or still asking at the turn limit."""
GROUP = ("model", "condition", "protocol")
"""Columns that the cells of an average share."""
FEWEST_PERCENT = 0.5
"""Smallest share that a sentence mentions."""
MOST_LOST = 20.0
"""A sentence warns of cells in which a larger percentage of replies says nothing about the model."""
LONGEST = 120
"""Characters of a reply that are quoted."""


def first_reply_columns() -> list[pl.Expr]:
    """Return the columns ``ANSWERS`` of scored episodes, as booleans."""
    asks, at_once = pl.col("suggestions") > 0, pl.col("suggestions") == 0
    gave_up, guessed = at_once & (pl.col("abstentions") > 0), at_once & (pl.col("categories") > 0)
    unreadable = (pl.col("unparsable") > 0) | (pl.col("ending") == Ending.TRUNCATED)
    shares = (asks, gave_up, guessed, at_once & ~gave_up & ~guessed, unreadable)
    return [share.alias(name) for name, share in zip(ANSWERS, shares, strict=True)]


def answer_counts(answered: pl.Expr) -> list[pl.Expr]:
    """Return the counts of a cell behind its shares, over the ``answered`` episodes."""
    asks, limit = pl.col("suggestions") > 0, pl.col("ending") == Ending.LIMIT
    ended = {"_right_if_asked": pl.col("correct") & asks, "_limit_if_asked": limit & asks}
    counts = [column.filter(answered).sum().cast(pl.Int64).name.prefix("_") for column in first_reply_columns()]
    return [*counts, *(kind.filter(answered).sum().cast(pl.Int64).alias(name) for name, kind in ended.items())]


def answer_columns(reference: Collection[str]) -> list[pl.Expr]:
    """Return the shares in percent with their score intervals; those of asking are null under ``reference`` conditions."""
    can_ask = ~pl.col("condition").is_in(list(reference))
    totals = dict.fromkeys(FIRST_REPLIES, pl.when(can_ask).then(pl.col("scored")))
    totals |= dict.fromkeys(IF_ASKED, pl.when(can_ask).then(pl.col("_asks")))
    shares = [share_columns(name, pl.col(f"_{name}"), total) for name, total in totals.items()]
    shares.append(share_columns("unreadable", pl.col("_unreadable"), pl.col("scored")))
    return [column for columns in shares for column in columns]


def average_answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the unweighted means over scenarios of the shares, one row per ``GROUP``; ``rows`` are those of results.

    Shares of the episodes that ask are ratios of two means, and null where nobody asks.
    """
    scored, asks = rows.filter(pl.col("scored") > 0), pl.col("asks")
    joint = {name: (asks * pl.col(name).fill_null(0)).mean() / asks.mean() for name in IF_ASKED}
    ratios = {name: pl.when(asks.mean() > 0).then(ratio) for name, ratio in joint.items()}
    return scored.group_by(GROUP, maintain_order=True).agg(pl.col(ANSWERS).mean(), **ratios)


def answer_sentences(rows: pl.DataFrame, sweep: Sweep) -> Iterator[str]:
    """Yield one sentence per model that says whether it asks, from rows of results; baselines are left out."""
    if "asks" not in rows.columns:
        return
    conditions = sweep.conditions
    averages = average_answers(rows.filter(protocol="mcqa")).drop_nulls("asks")
    hints = {condition.name for condition in conditions if condition.hint}
    order = [ZERO_SHOT, *(condition.name for condition in conditions)]
    for model in dict.fromkeys(averages.filter(~pl.col("model").is_in(list(sweep.baselines)))["model"]):
        shares = {row["condition"]: row for row in averages.filter(model=model).iter_rows(named=True)}
        played = [name for name in dict.fromkeys(order) if name in shares]
        if played:
            hint = next((shares[name]["asks"] for name in played[1:] if name in hints), None)
            yield _sentence(model, played[0], shares[played[0]], hint)


def folder_answers(folder: Path) -> list[str]:
    """Return the sentences of a run folder from its results, which the end of ``run`` writes; empty without readable ones."""
    try:
        return list(answer_sentences(pl.read_parquet(folder / "results.parquet", glob=False), stored_sweep(folder)))
    except (RunFolderError, *UNREADABLE):
        return []


def _sentence(model: str, condition: str, row: dict[str, float | None], hint: float | None) -> str:
    shares = {name: _percent(row[name]) for name in (*FIRST_REPLIES, *IF_ASKED) if row[name] is not None}
    with_hint = "" if hint is None else f" ({_percent(hint)} with the hint)"
    asked = f" and is then right in {shares['right_if_asked']}" if "right_if_asked" in shares else ""
    unreadable = float(row["unreadable_at_once"] or 0)
    silent = f"; {_percent(unreadable)} of its first replies name no option" if unreadable >= FEWEST_PERCENT else ""
    return (
        f"{model} asks in {shares['asks']} of {condition} episodes{with_hint}{asked}; it gives up at once in "
        f"{shares['gave_up_at_once']} and guesses in {shares['guessed_at_once']}{silent}."
    )


def _percent(share: float | None) -> str:
    """Return a share as whole percent; only an exact 0 or 100 is written as such."""
    value = float(share or 0)
    return "<1%" if 0 < value < FEWEST_PERCENT else ">99%" if 99.5 < value < 100 else f"{value:.0f}%"


def unreadable_lines(rows: pl.DataFrame, folder: Path, left_out: Container[str] = ()) -> Iterator[str]:
    """Yield a warning per model with a cell whose replies are often unreadable, empty, cut off or errors.

    ``rows`` are those of results, and ``left_out`` are the baselines.
    """
    if "unreadable" not in rows.columns:
        return
    unread = (pl.col("unreadable").fill_null(0) * pl.col("scored") / 100).round() + pl.col("overflow")
    counted = rows.filter(pl.col("finished") > 0).with_columns((unread + pl.col("errors")).cast(pl.Int64).alias("lost"))
    bad = counted.filter(100 * pl.col("lost") > MOST_LOST * pl.col("finished"))
    worst = bad.sort(-pl.col("lost") / pl.col("finished"), "cell")
    for (model,), part in worst.group_by(["model"], maintain_order=True):
        if model not in left_out:
            row = part.row(0, named=True)
            yield (
                f"{model}: in {pluralize(part.height, 'cell')} more than {MOST_LOST:.0f}% of the replies are unreadable, "
                f"empty, cut off or errors; in {row['scenario']}, {row['condition']} {row['lost']:,} of {row['finished']:,}"
                f"{_quote_reply(folder, row['cell'])}. See them: proactive-sweep view {shlex.quote(str(folder))}"
            )


def _quote_reply(folder: Path, cell: str) -> str:
    """Return one unreadable reply of a cell, or else an error, and what to set if the reply holds thoughts."""
    own = pl.col("key").str.replace(r"/[^/]*$", "") == cell
    unparsable = turns(folder).filter(own, pl.col("reply") != "", pl.col("action") == Action.UNPARSABLE)
    texts = unparsable.sort("key", "turn").select("reply").head(1).collect()["reply"].to_list()
    errors = episodes(folder).filter(own, pl.col("error").is_not_null()).sort("key").select("error").head(1)
    if not (texts := texts or errors.collect()["error"].to_list()):
        return ""
    text = " ".join(printable(texts[0]).split())
    thinks = strip_thinking(texts[0]) != texts[0].strip()
    remedy = " (thoughts: set thinking = { budget = 4096 } in the model's entry)" if thinks else ""
    return f', such as "{text[:LONGEST]}{"…" * (len(text) > LONGEST)}"{remedy}'
