"""The comparison of a run with the published figures.

A cell is compared only if it is of the same samples, played and decoded as the paper did, to the end.
Every other cell is listed with the reason why not; its published figure is left out rather than compared. Greedy decoding is
compared and named: most checkpoints are greedy by themselves, and no figure tells which run was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from actors.turn_judge import turn_judge_key
from envs import SCENARIOS
from orchestrator.report.estimates import GROUP, Estimates, estimate
from orchestrator.report.judge_tables import INTERVALS, averages
from orchestrator.report.metrics import lacking
from orchestrator.report.provenance import UNVERIFIED, foreign, open_ended_subset, subset
from orchestrator.report.published import AVERAGE, MEASURES, ROUNDING, figures
from orchestrator.report.rounding import averages_agree, least_difference, verdicts
from orchestrator.report.run_data import RunData, read
from orchestrator.report.wording import counted, signed
from sweeps.sampling import AS_THE_PACKAGE, Sampling
from sweeps.spec import OpenEnded

SCHEMA = {
    **dict.fromkeys(("model", "paper", "scenario", "condition", "protocol", "measure"), pl.String),
    **dict.fromkeys(("planned", "finished"), pl.Int64),
    **dict.fromkeys(("ours", "low", "high", "published", "difference"), pl.Float64),
    "episodes": pl.Int64,
    "inside": pl.Boolean,
    "exact": pl.Boolean,
    "errors": pl.Int64,
    "reason": pl.String,
    "judge": pl.String,
    "apart": pl.String,
}
COUNTS = ("answered", "judged", "unjudged", "lacking", "judge")
OUR_READING = (
    "oeg-multi: the paper says of these answers only that every inapplicable suggestion is mapped to a random valid one "
    "(section 4.2); which answers are suggestions, the judge's wording and the draw are our reading "
    "(docs/decisions/0010-open-ended-turns.md)"
)
PAPERS_JUDGE = "the paper's are by Qwen3-8B, sampled, with the package's instruction"


def compare(folder: Path, data: Path | None = None, judge: str = "", strict: bool = False) -> pl.DataFrame:
    """Ours beside the published figures, one row model x scenario (and ``avg``) x condition x protocol x measure.

    ``ours`` with our 95% interval ``low`` and ``high``; where nothing speaks against it ``published``, ``difference`` (ours
    less published), ``exact``, ``episodes`` and ``inside``; else ``reason``. Multiple choice decoded as the package does is
    ``exact``: ``episodes`` is the fewest correct episodes (suggestions, for ps) that ours differs by, rounding allowed, and
    ``inside`` says that it is 0 (of an average: that rounding explains it). What is decoded otherwise, and open-ended answers,
    which are sampled and read by another judge, cannot end alike: ``inside`` says that the published figure, known to 0.05,
    lies in our interval. ``apart`` says how our decoding differs from the package's where figures are compared all the same.
    ``errors`` counts episodes without an answer: they are in none of our measures, and wrong in the package's example.
    ``judge`` and ``strict`` choose the verdicts, as ``read`` does. Raises RunFolderError when the folder is no run.
    """
    return compared(read(folder, data, judge, strict))


def compared(run_data: RunData, intervals: Estimates | None = None) -> pl.DataFrame:
    """``compare`` of a run that is read already."""
    intervals = intervals or estimate(run_data)
    case = _Case(run_data)
    cells, means = _judged(run_data, intervals)
    rows = [row for cell in cells.iter_rows(named=True) for row in case.rows(cell, cell["scenario"])]
    for mean in means.iter_rows(named=True):
        rows += case.rows(mean | case.counts(mean), AVERAGE)
    order = {name: place for place, name in enumerate([*SCENARIOS, AVERAGE])}
    place = pl.col("scenario").replace_strict(order, default=len(order), return_dtype=pl.Int64)
    return pl.DataFrame(rows, schema=SCHEMA).sort("model", "protocol", "condition", place, "measure")


def tables(rows: pl.DataFrame) -> Iterator[Table]:
    """Printable: one table a condition and protocol of what can be compared; above ours, below the paper's and the difference.

    ``*`` marks what ``inside`` denies.
    """
    known = rows.filter(pl.col("published").is_not_null())
    for (protocol, condition), part in known.group_by(["protocol", "condition"], maintain_order=True):
        mark = "more than rounding allows" if part["exact"].all() else "outside our 95% interval"
        title = f"{escape(str(condition))} ({protocol}): ours, under it the paper's and the difference (* {mark})"
        table = Table("model", "", title=title, title_justify="left")
        for name in (*SCENARIOS, AVERAGE):
            table.add_column(name, justify="right", no_wrap=True)
        for (model, measure), found in part.group_by(["model", "measure"], maintain_order=True):
            cells = {row["scenario"]: _beside(row) for row in found.iter_rows(named=True)}
            table.add_row(escape(str(model)), str(measure), *[cells.get(name, "-") for name in (*SCENARIOS, AVERAGE)])
        yield table


def reasons(rows: pl.DataFrame) -> list[str]:
    """How far the tables agree; why the rest is not compared, one sentence a reason; and what no comparison can check."""
    left = rows.filter(pl.col("reason").is_not_null() & (pl.col("scenario") != AVERAGE))
    cells = left.unique(["model", "scenario", "condition", "protocol"], maintain_order=True)
    grouped = cells.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("model").unique(maintain_order=True))
    sentences = [
        f"{counted(count, 'cell')} not compared ({_named(models)}): {reason}"
        for reason, count, models in grouped.iter_rows()
    ]
    by = [
        f"open-ended figures are by the judge {name}; {PAPERS_JUDGE}"
        for name in rows["judge"].drop_nulls().unique().sort()
    ]
    return [
        *verdicts(rows),
        *sentences,
        *by,
        *sorted({told for told in rows["apart"] if told}),
        *_wrong_there(rows),
        *([f"of what is compared, {UNVERIFIED}"] if rows["published"].count() else []),
    ]


def _wrong_there(rows: pl.DataFrame) -> Iterator[str]:
    """One sentence a compared cell with episodes that the package's example counts as wrong, and we as no answer."""
    found = rows.filter((pl.col("measure") == "acc") & pl.col("published").is_not_null() & (pl.col("errors") > 0))
    for row in found.filter(pl.col("scenario") != AVERAGE).iter_rows(named=True):
        scored = row["finished"] - row["errors"]
        yield (
            f"{row['model']}/{row['scenario']}/{row['condition']}: {row['errors']:,} of "
            f"{counted(row['finished'], 'episode')} without an answer; counted as wrong, as the package's example does, acc is "
            f"{row['ours'] * scored / row['finished']:.1f}"
        )


class _Case:
    """What speaks for and against a comparison, looked up once a run."""

    def __init__(self, run_data: RunData) -> None:
        sweep = run_data.sweep
        self.paper = {model.name: model.paper for model in sweep.models}
        self.filtered = sweep.selection.filtered
        self.foreign, self.subset, self.judged = foreign(run_data), subset(run_data), open_ended_subset(run_data)
        openly = sweep.open_ended.sampling
        self.decoding = {"mcqa": _decoding(sweep.sampling), "oeg": _sampled(openly), "oeg-multi": _sampled(openly)}
        self.apart = {"mcqa": _apart(sweep.sampling, "mcqa"), "oeg": _apart(openly, "oeg")}
        reader = (
            f"{OUR_READING}; answers read by {turn_judge_key(sweep.turn_judge)}" if sweep.turn_judge else OUR_READING
        )
        self.apart["oeg-multi"] = "; ".join(filter(None, (reader, _apart(openly, "oeg-multi"))))
        self.decoding["tools"] = self.apart["tools"] = ""
        self.cells = run_data.rows
        published = figures().filter(pl.col("filtered") == self.filtered)
        keys = ["protocol", "condition", "paper", "scenario", "measure"]
        self.published: dict[tuple[str, ...], float] = {
            row[:5]: row[5] for row in published.select(*keys, "published").rows()
        }
        self.tables = {key[:2] for key in self.published}
        self.listed = {key[:3] for key in self.published}

    def counts(self, mean: Mapping[str, Any]) -> dict[str, Any]:
        """Planned, finished and unanswered episodes behind an average."""
        same = [pl.col(name) == mean[name] for name in ("model", "condition", "protocol")]
        cells = self.cells.filter(same)
        return {name: int(cells[name].sum()) for name in ("planned", "finished", "errors")}

    def rows(self, cell: Mapping[str, Any], scenario: str) -> Iterator[dict[str, Any]]:
        """One row a measure that the paper has of this protocol and that the cell has."""
        reason = self.against(cell, scenario)
        for measure in MEASURES.get(cell["protocol"], {}).values():
            if measure not in cell or (cell["condition"] == "reference" and measure == "ps"):
                continue
            key = (cell["protocol"], cell["condition"], self.paper.get(cell["model"], ""), scenario, measure)
            row = _row(cell, scenario, measure, key[2], None if reason else self.published.get(key), reason)
            if "published" in row:
                apart = self.apart[cell["protocol"]]
                row |= {"apart": apart, **_tested(row, cell, exact=cell["protocol"] == "mcqa" and not apart)}
            yield row

    def against(self, cell: Mapping[str, Any], scenario: str) -> str | None:
        """Why this cell is not compared, the first reason; None if it is."""
        table = (cell["protocol"], cell["condition"])
        paper = self.paper.get(cell["model"], "")
        if cell["protocol"] == "tools":
            return "no figure of tool calls is published: the paper has no such protocol"
        if strange := self._samples(scenario, self.foreign):
            return strange
        if not paper:
            return "the model is not in the paper"
        if table not in self.tables:
            which = "filtered" if self.filtered else "unfiltered"
            return f"no table per model of {cell['condition']} ({cell['protocol']}, {which}) is published"
        if (*table, paper) not in self.listed:
            return f"the published table of {cell['condition']} has no row of {paper}"
        if decoding := self.decoding[cell["protocol"]]:
            return decoding
        subsets = self.subset if cell["protocol"] == "mcqa" else self.judged
        return self._samples(scenario, subsets) or self._unfinished(cell, scenario)

    def _samples(self, scenario: str, complaints: Mapping[str, str]) -> str | None:
        """What speaks against the scenario's samples; against an average, what speaks against any of its scenarios."""
        return next(iter(complaints.values()), None) if scenario == AVERAGE else complaints.get(scenario)

    def _unfinished(self, cell: Mapping[str, Any], scenario: str) -> str | None:
        if scenario == AVERAGE:
            return None if cell["all_seven"] else "not all seven scenarios are complete"
        if missing := cell["planned"] - cell["finished"]:
            return f"unfinished: {cell['planned'] - missing:,} of {counted(cell['planned'], 'episode')}"
        if cell["failed"]:
            return (
                f"{counted(cell['failed'], 'episode')} failed here; `proactive-sweep run --retry-failed` plays it again"
            )
        unread = cell.get("lacking")
        return f"{counted(unread, 'answer')} not judged yet; `proactive-sweep judge` goes on" if unread else None


def _judged(run_data: RunData, intervals: Estimates) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cells and averages, with the judge's measures where the run has them."""
    if "aggregate" not in run_data.rows.columns:
        return intervals.cells, intervals.averages
    counted = run_data.rows.with_columns(lacking(run_data.rows.columns).alias("lacking"))
    cells = intervals.cells.join(counted.select("cell", *COUNTS, *INTERVALS), on="cell", how="left")
    means = averages(run_data).select(*GROUP, *INTERVALS).with_columns(pl.lit(run_data.judge).alias("judge"))
    return cells, intervals.averages.join(means, on=list(GROUP), how="left")


def _row(
    cell: Mapping[str, Any], scenario: str, measure: str, paper: str, published: float | None, reason: str | None
) -> dict[str, Any]:
    ours, low, high = cell.get(measure), cell.get(f"{measure}_low"), cell.get(f"{measure}_high")
    row = {name: cell[name] for name in ("model", "condition", "protocol", "planned", "finished", "errors")}
    row["judge"] = cell.get("judge")
    row |= {"paper": paper, "scenario": scenario, "measure": measure, "ours": ours, "low": low, "high": high}
    if published is None or ours is None:
        return {**row, "reason": reason or "nothing is scored yet"}
    return {**row, "published": published, "difference": ours - published, "reason": None}


def _tested(row: Mapping[str, Any], cell: Mapping[str, Any], exact: bool) -> dict[str, Any]:
    """Whether a row's figure agrees with the published one: by its count of episodes if ``exact``, else by its interval."""
    low, high, published = row["low"], row["high"], row["published"]
    if not exact:
        inside = None if low is None or high is None else low - ROUNDING <= published <= high + ROUNDING
        return {"exact": False, "inside": inside}
    if row["scenario"] == AVERAGE:
        return {"exact": True, "inside": averages_agree(row["ours"], published)}
    episodes = _episodes(cell, row["measure"], published)
    return {"exact": True, "episodes": episodes, "inside": episodes == 0}


def _episodes(cell: Mapping[str, Any], measure: str, published: float) -> int:
    """Correct episodes, or suggestions, that ours has more than the paper; an episode without an answer is wrong there."""
    scored = cell["scored"]
    if measure == "ps":
        return least_difference(round(cell["ps"] * scored), scored, published, 1)
    return least_difference(round(cell["acc"] * scored / 100), cell["finished"], published, 100)


def _decoding(sampling: Sampling) -> str | None:
    """Why the replies cannot be set beside the paper's: a temperature of one's own, or another number of new tokens."""
    paper = Sampling()
    if (sampling.temperature, sampling.max_tokens) == (paper.temperature, paper.max_tokens):
        return None
    return (
        f"decoded otherwise than the paper: {sampling.told} and {sampling.max_tokens} new tokens, not as each checkpoint's"
        f" generation_config says and {paper.max_tokens}"
    )


def _sampled(sampling: Sampling) -> str | None:
    """Why open-ended answers are not decoded as the package's example does: sampled, and as long as they want to be."""
    drawn = sampling.temperature > 0 or (sampling.checkpoint and sampling.sampled)
    if drawn and sampling.max_tokens >= OpenEnded().sampling.max_tokens:
        return None
    return (
        f"answered otherwise than in the paper: {sampling.told} and at most {sampling.max_tokens:,} new tokens, not sampled and"
        " as long as it takes"
    )


def _apart(sampling: Sampling, protocol: str) -> str:
    """What of the decoding differs from the package's where figures are compared all the same; empty if nothing does."""
    package = Sampling(checkpoint=True) if protocol == "mcqa" else AS_THE_PACKAGE
    if sampling == package:
        return ""
    ours, theirs = (f"{one.told}, at most {one.max_tokens:,} new tokens" for one in (sampling, package))
    return f'decoding of {protocol} differs: ours {ours}; the package\'s {theirs} (sampling = "checkpoint")'


def _beside(row: Mapping[str, Any]) -> str:
    outside = "*" if row["inside"] is False else ""
    difference = round(row["difference"], 1) + 0.0
    return f"{row['ours']:.1f}\n[dim]{row['published']:.1f} {signed(difference)}{outside}[/]"


def _named(models: list[str], most: int = 3) -> str:
    more = f" and {len(models) - most} more" if len(models) > most else ""
    return ", ".join(models[:most]) + more
