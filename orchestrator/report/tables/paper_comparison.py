"""Comparison of a run with the published figures.

A cell is compared only if it is complete and has the samples, the protocol and the decoding of the paper. Every other cell is
listed with a reason and without its published figure. Greedy decoding is compared, with a note: most checkpoints are greedy by
default, and the paper does not say which of its runs were greedy.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Any

import numpy as np
import polars as pl
from scipy.special import bdtr, bdtrc  # type: ignore[import-untyped]

from actors.playing.turn_judge import turn_judge_key
from actors.text.printable import list_first
from envs import SCENARIOS
from envs.plural import pluralize
from orchestrator.report.measures.estimates import GROUP, estimate
from orchestrator.report.paper.published import (
    AVERAGE,
    MEASURES,
    ROUNDING,
    UNVERIFIED,
    decoding_mismatch,
    decoding_note,
    foreign_scenarios,
    open_ended_subsets,
    published_figures,
    sampling_mismatch,
    subset_scenarios,
)
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.flip_rates import measured_flips
from orchestrator.report.tables.open_ended import INTERVALS, open_ended_averages
from orchestrator.report.tables.parts import scenario_cells
from orchestrator.report.tables.table import Table, TableCell, columns, line
from orchestrator.report.wording import format_signed

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
    "flip_rate": pl.Float64,
}
COUNTS = ("answered", "judged", "unjudged", "lacking", "judge")
OUR_READING = (
    "oeg-multi: the paper says of these answers only that every inapplicable suggestion is mapped to a random valid one "
    "(section 4.2); which answers are suggestions, the judge's wording and the draw are our reading "
    "(docs/decisions/0010-open-ended-turns.md)"
)
DEFAULT_FLIPS = 1.0
"""Percent of answers taken to change with the batch where no rate is measured: above the rates of published studies of short
greedy replies in bf16 (arXiv 2605.30218: 0.48% of steps; arXiv 2506.09501 for long reasoning: more)."""
FLOAT_ERROR = 1e-9
PAPERS_JUDGE = "the paper's are by Qwen3-8B, sampled, with the package's instruction"


def compare_with_paper(run_data: RunData) -> pl.DataFrame:
    """Compare with the published figures, one row per model x scenario (and ``avg``) x condition x protocol x measure.

    ``low`` and ``high`` are the 95% interval of ``ours``. A comparable row has ``published``, ``difference`` (ours minus
    published), ``exact`` and ``inside`` (false if both disagree); any other row has a ``reason``. Multiple choice with
    the package's decoding is ``exact``: ``episodes`` is the smallest difference in correct episodes (for ps, in
    suggestions) that rounding allows, null for an average. Then ``inside`` is true if rounding explains the difference,
    or if flips do so at 5%: answers that change with the batch, as often as ``flip_rate`` (percent, the measured upper
    bound, else ``DEFAULT_FLIPS``). A row that is not exact is ``inside`` if the published figure, up to rounding, is in
    our interval. ``apart`` describes how our decoding differs from the package's. ``errors`` counts episodes without an
    answer, which none of our measures count and the package's example counts as wrong.
    """
    case = _PaperCase(run_data)
    cells, means = _add_judge_measures(run_data)
    rows = [row for cell in cells.iter_rows(named=True) for row in case.rows(cell, cell["scenario"])]
    counts = run_data.rows.group_by(GROUP).agg(pl.col("planned", "finished", "errors").sum())
    for mean in means.join(counts, on=list(GROUP)).iter_rows(named=True):
        rows += case.rows(mean, AVERAGE)
    scenario = rank_of("scenario", [*SCENARIOS, AVERAGE])
    return pl.DataFrame(rows, schema=SCHEMA).sort("model", "protocol", "condition", scenario, "measure")


def comparison_tables(rows: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per condition and protocol: ours, under it the paper's and the difference, with ``*`` if they disagree."""
    published, names = rows.filter(pl.col("published").is_not_null()), (*SCENARIOS, AVERAGE)
    for (protocol, condition), part in published.group_by(["protocol", "condition"], maintain_order=True):
        mark = "more than rounding and flips allow" if part["exact"].all() else "outside our 95% interval"
        title = f"{condition} ({protocol}): ours, the paper's and the difference"
        lines = []
        for (model, measure), figures in part.group_by(["model", "measure"], maintain_order=True):
            lines.append(line(f"{model}, {measure}", scenario_cells(figures, names, _compared_cell)))
        yield Table("paper", title, columns("model, measure", names), tuple(lines), notes=(f"* {mark}",))


def comparison_notes(rows: pl.DataFrame) -> list[str]:
    """Return sentences on the agreement of each table, the reasons for missing comparisons, and what cannot be checked."""
    skipped = rows.filter(pl.col("reason").is_not_null() & (pl.col("scenario") != AVERAGE))
    cells = skipped.unique(["model", "scenario", "condition", "protocol"], maintain_order=True)
    grouped = cells.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("model").unique(maintain_order=True))
    judges = rows["judge"].drop_nulls().unique().sort()
    return [
        *_agreement_sentences(rows),
        *(
            f"{pluralize(n, 'cell')} not compared ({list_first(names)}): {reason}"
            for reason, n, names in grouped.iter_rows()
        ),
        *(f"open-ended figures are by the judge {name}; {PAPERS_JUDGE}" for name in judges),
        *sorted({note for note in rows["apart"] if note}),
        *_flip_sentences(rows),
        *([UNVERIFIED] if rows["published"].count() else []),
    ]


def _agreement_sentences(rows: pl.DataFrame) -> Iterator[str]:
    """Yield one sentence per table and measure on its agreement with the paper, over all figures but averages."""
    figures = rows.filter(pl.col("published").is_not_null() & (pl.col("scenario") != AVERAGE))
    for (condition, protocol, measure), part in figures.group_by(
        "condition", "protocol", "measure", maintain_order=True
    ):
        how = "off by more than rounding allows" if part["exact"].all() else "outside our 95% interval"
        outside = part.filter(~pl.col("inside")).height
        off = f"{outside} of {pluralize(part.height, 'figure')} {how}" if outside else "agrees with the paper"
        mean = f"{float(part['difference'].abs().mean()):.2f}{'' if measure == 'ps' else ' points'}"  # type: ignore[arg-type]
        yield f"{condition} ({protocol}), {measure}: {off}; mean absolute difference {mean}"


def _flip_sentences(rows: pl.DataFrame) -> Iterator[str]:
    """Yield one sentence per rate of answers that change with the batch, measured or assumed."""
    flips = rows.filter(pl.col("exact") & (pl.col("flip_rate") > 0)).select("model", "flip_rate").unique()
    for (rate,), part in flips.sort("flip_rate", "model").group_by(["flip_rate"], maintain_order=True):
        source = "no rate is measured, so up to" if rate == DEFAULT_FLIPS else "up to"
        names = list_first(part["model"].to_list())
        yield f"{names}: {source} {rate:.2f}% of answers change with the batch; * is beyond what that explains (5%)"


class _PaperCase:
    """All that decides whether a cell of one run can be compared with the paper, and the paper's figures."""

    def __init__(self, run_data: RunData) -> None:
        sweep = run_data.sweep
        self.paper = {model.name: model.paper for model in sweep.models}
        self.filtered = sweep.selection.filtered
        self.foreign, self.subset = foreign_scenarios(run_data), subset_scenarios(run_data)
        self.judged = open_ended_subsets(run_data)
        open_ended = sweep.open_ended.sampling
        mismatch = sampling_mismatch(open_ended)
        self.decoding = {"mcqa": decoding_mismatch(sweep.sampling), "oeg": mismatch, "oeg-multi": mismatch}
        self.apart = {"mcqa": decoding_note(sweep.sampling, "mcqa"), "oeg": decoding_note(open_ended, "oeg")}
        reader = f"answers read by {turn_judge_key(sweep.turn_judge)}" if sweep.turn_judge else ""
        several_turns = (OUR_READING, reader, decoding_note(open_ended, "oeg-multi"))
        self.apart["oeg-multi"] = "; ".join(filter(None, several_turns))
        self.cells = run_data.rows
        self.flips = measured_flips(run_data.folder)
        columns = ["protocol", "condition", "paper", "scenario", "measure", "published"]
        rows = published_figures().filter(filtered=self.filtered).select(columns).iter_rows()
        self.published: dict[tuple[str, ...], float] = {tuple(key): value for *key, value in rows}
        self.tables = {key[:2] for key in self.published}
        self.listed = {key[:3] for key in self.published}

    def _cells_of(self, row: Mapping[str, Any]) -> pl.DataFrame:
        """Return the cells of all scenarios under the same model, condition and protocol."""
        return self.cells.filter([pl.col(name) == row[name] for name in GROUP])

    def rows(self, cell: Mapping[str, Any], scenario: str) -> Iterator[dict[str, Any]]:
        """Yield one row per measure that both the paper and the cell have."""
        reason, protocol = self.exclusion_reason(cell, scenario), cell["protocol"]
        own = {name: cell[name] for name in ("model", "condition", "protocol", "planned", "finished", "errors")}
        own |= {"judge": cell.get("judge"), "paper": self.paper.get(cell["model"], ""), "scenario": scenario}
        for measure in MEASURES.get(protocol, {}).values():
            if measure not in cell or (cell["condition"] == "reference" and measure == "ps"):
                continue
            ours, low, high = (cell.get(f"{measure}{end}") for end in ("", "_low", "_high"))
            row = own | {"measure": measure, "ours": ours, "low": low, "high": high}
            published = self.published.get((protocol, cell["condition"], own["paper"], scenario, measure))
            if reason or published is None or ours is None:
                yield {**row, "reason": reason or "nothing is scored yet"}
                continue
            apart, flips = self.apart[protocol], self.flips.get(cell["model"], DEFAULT_FLIPS)
            row |= {"published": published, "difference": ours - published, "apart": apart, "flip_rate": flips}
            is_exact = protocol == "mcqa" and not apart
            yield row | _agreement_columns(row, cell, is_exact, self._cells_of(cell)["finished"].to_list())

    def exclusion_reason(self, cell: Mapping[str, Any], scenario: str) -> str | None:
        """Return the first reason why this cell is not compared, or None."""
        table = (cell["protocol"], cell["condition"])
        paper = self.paper.get(cell["model"], "")
        if cell["protocol"] == "tools":
            return "no figure of tool calls is published: the paper has no such protocol"
        if foreign := _sample_reason(scenario, self.foreign):
            return foreign
        if not paper:
            return "the model is not in the paper"
        if table not in self.tables:
            samples = "filtered" if self.filtered else "unfiltered"
            return f"no table per model of {cell['condition']} ({cell['protocol']}, {samples}) is published"
        if (*table, paper) not in self.listed:
            return f"the published table of {cell['condition']} has no row of {paper}"
        if decoding := self.decoding[cell["protocol"]]:
            return decoding
        subsets = self.subset if cell["protocol"] == "mcqa" else self.judged
        return _sample_reason(scenario, subsets) or _unfinished_reason(cell, scenario)


def _sample_reason(scenario: str, reasons: Mapping[str, str]) -> str | None:
    """Return the reason that ``reasons`` has for a scenario; for an average, the first reason of any scenario."""
    return next(iter(reasons.values()), None) if scenario == AVERAGE else reasons.get(scenario)


def _unfinished_reason(cell: Mapping[str, Any], scenario: str) -> str | None:
    if scenario == AVERAGE:
        return None if cell["all_seven"] else "not all seven scenarios are complete"
    if cell["planned"] > cell["finished"]:
        return f"unfinished: {cell['finished']:,} of {pluralize(cell['planned'], 'episode')}"
    if cell["failed"]:
        return (
            f"{pluralize(cell['failed'], 'episode')} failed here; `proactive-sweep run --retry failed` plays it again"
        )
    pending = cell.get("lacking")
    return f"{pluralize(pending, 'answer')} not judged yet; `proactive-sweep judge` reads them" if pending else None


def _add_judge_measures(run_data: RunData) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return cells and averages, with the judge's measures if the run has them."""
    cells, averages = estimate(run_data)
    if "aggregate" not in run_data.rows.columns:
        return cells, averages
    cells_with_lacking = run_data.rows.with_columns(missing_episodes(run_data.rows.columns).alias("lacking"))
    cells = cells.join(cells_with_lacking.select("cell", *COUNTS, *INTERVALS), on="cell", how="left")
    means = open_ended_averages(run_data).select(*GROUP, *INTERVALS).with_columns(pl.lit(run_data.judge).alias("judge"))
    return cells, averages.join(means, on=list(GROUP), how="left")


def _agreement_columns(
    row: Mapping[str, Any], cell: Mapping[str, Any], exact: bool, sizes: Sequence[int]
) -> dict[str, Any]:
    """Return the columns of agreement: by the number of episodes and the rate of flips if ``exact``, else by the interval."""
    low, high, published = row["low"], row["high"], row["published"]
    if not exact:
        inside = None if low is None or high is None else low - ROUNDING <= published <= high + ROUNDING
        return {"exact": False, "inside": inside}
    flip_share, is_ps = (row["flip_rate"] or 0.0) / 100, row["measure"] == "ps"
    error = 0.0 if low is None else (high - low) / (2 * Z)
    if row["scenario"] == AVERAGE:
        variance = sum(1 / size for size in sizes if size) * flip_share / max(len(sizes), 1) ** 2
        flip_error = error * (2 * flip_share) ** 0.5 if is_ps else 100 * variance**0.5
        inside = abs(row["difference"]) <= 2 * ROUNDING + Z * flip_error + FLOAT_ERROR
        return {"exact": True, "inside": inside}
    episodes = _episode_difference(cell, row["measure"], published)
    if is_ps:  # a flipped answer draws a new number of suggestions
        inside = abs(episodes) <= Z * error * cell["scored"] * (2 * flip_share) ** 0.5
    else:
        inside = episodes == 0 or flip_probability(episodes, cell["finished"], flip_share) >= ALPHA
    return {"exact": True, "episodes": episodes, "inside": inside}


def _episode_difference(cell: Mapping[str, Any], measure: str, published: float) -> int:
    """Return our excess of correct episodes, or of suggestions, over the paper, which counts missing answers as wrong."""
    scored = cell["scored"]
    if measure == "ps":
        return smallest_difference(round(cell["ps"] * scored), scored, published, 1)
    return smallest_difference(round(cell["acc"] * scored / 100), cell["finished"], published, 100)


def smallest_difference(total: int, n: int, published: float, scale: float) -> int:
    """Return ``total`` minus the nearest integer k for which scale * k / n rounds to ``published``.

    ``total`` counts correct episodes (scale 100) or suggestions (scale 1) of ``n`` episodes. If no integer rounds to the
    published figure, the nearest one is used.
    """
    lowest = ceil((published - ROUNDING) * n / scale - FLOAT_ERROR)
    highest = floor((published + ROUNDING) * n / scale + FLOAT_ERROR)
    if lowest > highest:
        lowest = highest = round(published * n / scale)
    return max(0, total - highest) - max(0, lowest - total)


def flip_probability(episodes: int, n: int, flip_rate: float) -> float:
    """Return the chance that flips alone move a count of ``n`` episodes by ``episodes`` or more, up or down.

    Every episode flips with the chance ``flip_rate``. Gains and losses are equally likely, because both runs are alike.
    """
    flips = np.arange(abs(episodes), n + 1)
    either = 2 * bdtrc(np.ceil((flips + abs(episodes)) / 2) - 1, flips, 0.5)
    chances = bdtr(flips, n, flip_rate) - bdtr(flips - 1, n, flip_rate)
    return float(chances @ np.minimum(either, 1.0)) if episodes else 1.0


def _compared_cell(row: Mapping[str, Any]) -> TableCell:
    star = "*" if row["inside"] is False else ""
    difference = format_signed(round(row["difference"], 1) + 0.0)
    return TableCell(f"{row['ours']:.1f}\n{row['published']:.1f} {difference}{star}", row["ours"])
