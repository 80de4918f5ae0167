"""Does the model ask? The shares of episodes by their first reply, and what becomes of those that ask.

A game goes on only after a suggestion, so an episode with a suggestion began with one.
"""

import re
import shlex
import tomllib
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from typing import Any

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
DRAWN = "These are drawn demo pictures: no evidence about real photographs."
DEMO_CATEGORIES = frozenset(tomllib.loads(Path(__file__).with_name("demo.toml").read_text("utf-8"))["categories"])
FIRST_COCO = 42
"""Smallest picture number of COCO val2014; the demo benchmark numbers its pictures from 0."""
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
    """Return the means over scenarios, one row per ``GROUP``; shares of the episodes that ask are ratios of means, or null."""
    scored, asks = rows.filter(pl.col("scored") > 0), pl.col("asks")
    joint = {name: (asks * pl.col(name).fill_null(0)).mean() / asks.mean() for name in IF_ASKED}
    ratios = {name: pl.when(asks.mean() > 0).then(ratio) for name, ratio in joint.items()}
    return scored.group_by(GROUP, maintain_order=True).agg(pl.col(ANSWERS).mean(), **ratios)


def answer_sentences(rows: pl.DataFrame, sweep: Sweep, folder: Path) -> Iterator[str]:
    """Yield one sentence per model that says whether it asks, from rows of results; baselines are left out."""
    if "asks" not in rows.columns:
        return
    conditions = [c for c in sweep.conditions if c.name not in sweep.reference_conditions and not c.rules]
    order = list(dict.fromkeys([ZERO_SHOT, *(condition.name for condition in conditions)]))
    hints = {condition.name for condition in conditions if condition.hint}
    models = rows.filter(~pl.col("model").is_in(list(sweep.baselines)), protocol="mcqa")
    for (model,), own in models.filter(pl.col("condition").is_in(order)).group_by(["model"], maintain_order=True):
        shares = {row["condition"]: row for row in average_answers(own).iter_rows(named=True)}
        played = [name for name in order if name in shares]
        if played:
            used = [played[0], *[name for name in played[1:] if name in hints][:1]]
            cells = own.filter(pl.col("condition").is_in(used))
            yield _reservation(cells) + _sentence(str(model), *(shares[name] for name in used))
        else:
            bad = own.filter(pl.col("errors") > 0)
            quote = f": {bad['errors'].sum():,} failed{_quote_reply(folder, bad['cell'][0])}" if bad.height else ""
            yield f"{_reservation(own)}no answer about {model}{quote}"
    if models["scored"].sum() and shows_demo_pictures(models, folder, sweep):
        yield DRAWN


def folder_answers(folder: Path) -> list[str]:
    """Return the sentences of a run folder from its results, which the end of ``run`` writes; empty without readable ones."""
    try:
        rows = pl.read_parquet(folder / "results.parquet", glob=False)
        return list(answer_sentences(rows, stored_sweep(folder), folder))
    except (RunFolderError, *UNREADABLE):
        return []


def _reservation(cells: pl.DataFrame) -> str:
    """Return how a sentence on these cells begins if some of their episodes are not played."""
    finished, planned = int(cells["finished"].sum()), int(cells["planned"].sum())
    begun, names = cells.filter(pl.col("finished") > 0)["scenario"].n_unique(), cells["scenario"].n_unique()
    where = f"{finished:,} of {pluralize(planned, 'episode')} in {begun} of {pluralize(names, 'scenario')}"
    return f"UNFINISHED, {where}: so far " if finished < planned else ""


def _sentence(model: str, row: dict[str, Any], hint: dict[str, Any] | None = None) -> str:
    shares = {name: _percent(row[name]) for name in (*FIRST_REPLIES, *IF_ASKED) if row[name] is not None}
    with_hint = "" if hint is None else f"; with the hint it asks in {_percent(hint['asks'])}"
    asked = f" and is then right in {shares['right_if_asked']} of those" if "right_if_asked" in shares else ""
    unreadable = float(row["unreadable_at_once"] or 0)
    silent = f"; {_percent(unreadable)} of its first replies name no option" if unreadable >= FEWEST_PERCENT else ""
    return (
        f"{model} asks in {shares['asks']} of {row['condition']} episodes{asked}; it gives up at once in "
        f"{shares['gave_up_at_once']} and guesses in {shares['guessed_at_once']}{silent}{with_hint}."
    )


def _percent(share: float | None) -> str:
    """Return a share as whole percent; only an exact 0 or 100 is written as such."""
    value = float(share or 0)
    return "<1%" if 0 < value < FEWEST_PERCENT else ">99%" if 99.5 < value < 100 else f"{value:.0f}%"


def unreadable_lines(rows: pl.DataFrame, folder: Path, left_out: Container[str] = ()) -> Iterator[str]:
    """Yield a warning per model, but for ``left_out``, with a cell whose replies are often unreadable or missing."""
    if "unreadable" not in rows.columns:
        return
    unread = (pl.col("unreadable").fill_null(0) * pl.col("scored") / 100).round() + pl.col("overflow")
    counted = rows.filter(pl.col("finished") > 0).with_columns((unread + pl.col("errors")).cast(pl.Int64).alias("lost"))
    bad = counted.filter(100 * pl.col("lost") > MOST_LOST * pl.col("finished"))
    worst = bad.sort(-pl.col("lost") / pl.col("finished"), "cell")
    for (model,), part in worst.group_by(["model"], maintain_order=True):
        if model not in left_out:
            row, where = part.row(0, named=True), shlex.quote(str(folder))
            yield (
                f"{model}: in {pluralize(part.height, 'cell')} more than {MOST_LOST:.0f}% of the replies name none of the "
                f"offered options, are empty, cut off or errors; in {row['scenario']}, {row['condition']} {row['lost']:,} of "
                f"{row['finished']:,}{_quote_reply(folder, row['cell'])}. See them: proactive-sweep view {where}"
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


def shows_demo_pictures(rows: pl.DataFrame, folder: Path, sweep: Sweep) -> bool:
    """Return True if the first pictures of a scenario, in its largest cell, have the demo's categories, or COCO's low numbers."""
    visible = [ZERO_SHOT, *(condition.name for condition in sweep.conditions if condition.picture == "own")]
    begun = rows.filter(pl.col("condition").is_in(visible), pl.col("finished") > 0)
    cells = begun.sort("finished", "cell", descending=True).unique("scenario", keep="first")["cell"]
    is_own = pl.any_horizontal(pl.lit(False), *(pl.col("key").str.starts_with(f"{cell}/") for cell in cells))
    first = turns(folder).filter(pl.col("turn") == 0, is_own).select("key", "image").drop_nulls().collect()
    scenarios = first.group_by(pl.col("key").str.extract("/([^/]*)/", 1)).agg("image")
    return any(_are_demo(scenario, names) for scenario, names in scenarios.iter_rows())


def _are_demo(scenario: str, names: list[str]) -> bool:
    if scenario == "COCO":
        return any(int(number[1]) < FIRST_COCO for name in names if (number := re.search(r"_(\d{12})\.", name)))
    folders = ({re.sub("[^a-z]", "", part.lower()) for part in name.split("/")[1:-1]} for name in names)
    return all(DEMO_CATEGORIES & parts for parts in folders)
