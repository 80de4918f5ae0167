"""Comparison of a run with the published figures.

A cell is compared only if it is complete and has the samples, protocol and decoding of the paper; any other has a reason instead.
Greedy decoding is compared, with a note: most checkpoints are greedy by default, and the paper does not say which of its were.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import bdtr, bdtrc  # type: ignore[import-untyped]

from actors.playing.judge import turn_judge_key
from actors.text.printable import list_first
from envs import SCENARIOS, regular
from envs.plural import pluralize
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.paper import published as paper
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.scores.answer import GROUP
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.statistics.clustered import ALPHA
from orchestrator.report.statistics.proportion import Z
from orchestrator.report.tables.open_ended import INTERVALS, open_ended_averages
from orchestrator.report.tables.parts import scenario_cells
from orchestrator.report.tables.table import Table, TableCell, columns, format_signed, line
from orchestrator.storage import checksums
from orchestrator.storage.schemas import UNREADABLE

SCHEMA = {
    **dict.fromkeys(("model", "paper", "scenario", "condition", "protocol", "measure"), pl.String),
    **dict.fromkeys(("planned", "finished"), pl.Int64),
    **dict.fromkeys(("ours", "low", "high", "published", "difference"), pl.Float64),
    "episodes": pl.Int64,
    **dict.fromkeys(("inside", "exact"), pl.Boolean),
    "errors": pl.Int64,
    **dict.fromkeys(("reason", "judge", "apart"), pl.String),
    "flip_rate": pl.Float64,
}
KEY = ("protocol", "condition", "paper", "scenario", "measure")
COUNTS = ("scenario", "planned", "finished", "errors", "scored", "lacking", "all_seven", "judge")
RATES_FILE = "flip-rate/{}/rates.csv"
"""File in a run folder with the answers that changed when a share of it was played again (``models try --flip-rate``)."""
DEFAULT_FLIPS = 1.0
"""Percent of answers taken to change with the batch where no rate is measured: above the rates of published studies of short
greedy replies in bf16 (arXiv 2605.30218: 0.48% of steps; arXiv 2506.09501 for long reasoning: more)."""
FLOAT_ERROR = 1e-9


def compare_with_paper(run_data: RunData) -> pl.DataFrame:
    """Compare with the published figures, one row per model x scenario (and ``avg``) x condition x protocol x measure.

    ``low`` and ``high`` are the 95% interval of ``ours``. A comparable row has ``published``, ``difference`` (from ours),
    ``exact`` and ``inside`` (false if both disagree); any other row has a ``reason``. Multiple choice with the package's decoding
    is ``exact``: ``episodes`` is the smallest difference in correct episodes (for ps, in suggestions) that rounding allows, null
    for an average, and ``inside`` is true if rounding explains it, or if flips do so at 5%: answers that change with the batch,
    as often as ``flip_rate`` (percent, the measured upper bound, else ``DEFAULT_FLIPS``). Other rows are ``inside`` if our
    interval has the published figure, up to rounding. ``apart`` says how our decoding differs from the package's. ``errors``
    counts episodes without an answer, which none of our measures count and the package's example counts as wrong.
    """
    apart, flips = _decoding_notes(run_data), measured_flips(run_data.folder)
    sizes = {names: part["finished"].to_list() for names, part in run_data.rows.group_by(GROUP)}
    samplings = {"oeg": run_data.sweep.open_ended.sampling, "oeg-multi": run_data.sweep.open_ended.sampling}
    subsets = {protocol: paper.subset_scenarios(run_data, protocol) for protocol in paper.MEASURES}
    foreign, rows = paper.foreign_scenarios(run_data), []
    for row in _own_figures(run_data).iter_rows(named=True):
        protocol = row["protocol"]
        reason = (
            _sample_reason(row["scenario"], foreign)
            or ("the paper has no such figure" if row["published"] is None else "")
            or paper.decoding_mismatch(samplings.get(protocol, run_data.sweep.sampling), protocol)
            or _sample_reason(row["scenario"], subsets[protocol])
            or _unfinished_reason(row)
        )
        if reason:
            rows.append({**row, "published": None, "reason": reason})
            continue
        row |= {"difference": row["ours"] - row["published"], "apart": apart[protocol]}
        row |= {"flip_rate": flips.get(row["model"], DEFAULT_FLIPS)}
        is_exact = protocol == "mcqa" and not row["apart"]
        rows.append(row | _agreement_columns(row, is_exact, sizes[tuple(row[name] for name in GROUP)]))
    frame = pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)
    scenario = rank_of("scenario", [*SCENARIOS, paper.AVERAGE])
    return frame.sort("model", "protocol", "condition", scenario, "measure")


def _own_figures(run_data: RunData) -> pl.DataFrame:
    """Return a row per cell or average and measure that the paper has too, with the published figure or null."""
    cells, averages = estimate(run_data)
    lacking = missing_episodes(run_data.rows.columns).alias("lacking")
    judged = ["judge", *INTERVALS] if "aggregate" in run_data.rows.columns else []
    cells = cells.join(run_data.rows.select("cell", lacking, *judged), on="cell", how="left")
    if judged:
        means = open_ended_averages(run_data).select(*GROUP, *INTERVALS, pl.lit(run_data.judge).alias("judge"))
        averages = averages.join(means, on=list(GROUP), how="left")
    counts = run_data.rows.group_by(GROUP).agg(pl.col("planned", "finished", "errors").sum())
    averages = averages.join(counts, on=list(GROUP)).with_columns(scenario=pl.lit(paper.AVERAGE))
    both = pl.concat([cells, averages], how="diagonal")
    shared_columns = [name for name in (*GROUP, *COUNTS) if name in both.columns]
    parts = [
        both.filter(protocol=protocol).select(
            *shared_columns, measure=pl.lit(name), ours=name, low=f"{name}_low", high=f"{name}_high"
        )
        for protocol, measures in paper.MEASURES.items()
        for name in measures.values()
        if name in both.columns
    ]
    papers = {model.name: model.paper for model in run_data.sweep.models}
    rows = pl.concat(parts).filter(~(pl.col("condition").eq("reference") & pl.col("measure").eq("ps")))
    rows = rows.with_columns(paper=pl.col("model").replace_strict(papers, default="", return_dtype=pl.String))
    published = paper.published_figures().filter(filtered=run_data.sweep.selection.filtered)
    return rows.join(published.select(*KEY, "published"), on=list(KEY), how="left")


def comparison_tables(rows: pl.DataFrame) -> Iterator[Table]:
    """Yield a table per condition and protocol: ours, under it the paper's and the difference, with ``*`` if they disagree."""
    published, names = rows.filter(pl.col("published").is_not_null()), (*SCENARIOS, paper.AVERAGE)
    for (protocol, condition), part in published.group_by(["protocol", "condition"], maintain_order=True):
        mark = "more than rounding and flips allow" if part["exact"].all() else "outside our 95% interval"
        title = f"{condition} ({protocol}): ours, the paper's and the difference"
        lines = []
        for (model, measure), figures in part.group_by(["model", "measure"], maintain_order=True):
            lines.append(line(f"{model}, {measure}", scenario_cells(figures, names, _compared_cell)))
        yield Table("paper", title, columns("model, measure", names), tuple(lines), notes=(f"* {mark}",))


def comparison_notes(rows: pl.DataFrame) -> list[str]:
    """Return sentences on the agreement of each table, the reasons for missing comparisons, and what cannot be checked."""
    cells = rows.filter(pl.col("scenario") != paper.AVERAGE)
    skipped = cells.drop_nulls("reason").unique(["model", "scenario", "condition", "protocol"], maintain_order=True)
    reasons = skipped.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("model").unique(maintain_order=True))
    judges = rows["judge"].drop_nulls().unique().sort()
    flips = rows.filter(pl.col("exact") & (pl.col("flip_rate") > 0)).sort("flip_rate", "model")
    rates = flips.group_by("flip_rate", maintain_order=True).agg(pl.col("model").unique(maintain_order=True))
    return [
        *_agreement_sentences(cells.drop_nulls("published")),
        *(
            f"{pluralize(n, 'cell')} not compared ({list_first(names)}): {reason}"
            for reason, n, names in reasons.rows()
        ),
        *(f"open-ended figures are by the judge {name}; {paper.NOTES['judge']}" for name in judges),
        *sorted({note for note in rows["apart"] if note}),
        *(
            f"{list_first(names)}: {'no rate is measured, so ' * (rate == DEFAULT_FLIPS)}up to {rate:.2f}% of answers change"
            " with the batch; * is beyond what that explains (5%)"
            for rate, names in rates.rows()
        ),
        *([paper.NOTES["pictures"]] if rows["published"].count() else []),
    ]


def _agreement_sentences(figures: pl.DataFrame) -> Iterator[str]:
    """Yield one sentence per table and measure on its agreement with the paper."""
    names = ("condition", "protocol", "measure")
    for (condition, protocol, measure), part in figures.group_by(names, maintain_order=True):
        how = "off by more than rounding allows" if part["exact"].all() else "outside our 95% interval"
        outside = part.filter(~pl.col("inside")).height
        off = f"{outside} of {pluralize(part.height, 'figure')} {how}" if outside else "agrees with the paper"
        mean = f"{float(part['difference'].abs().mean()):.2f}{'' if measure == 'ps' else ' points'}"  # type: ignore[arg-type]
        yield f"{condition} ({protocol}), {measure}: {off}; mean absolute difference {mean}"


def _decoding_notes(run_data: RunData) -> dict[str, str]:
    """Return how our decoding and reading of each protocol differ from the package's; empty texts where they do not."""
    sweep, open_ended = run_data.sweep, run_data.sweep.open_ended.sampling
    reader = f"answers read by {turn_judge_key(sweep.turn_judge)}" if sweep.turn_judge else ""
    several_turns = (paper.NOTES["oeg-multi"], reader, paper.decoding_note(open_ended, "oeg-multi"))
    notes = {"mcqa": paper.decoding_note(sweep.sampling, "mcqa"), "oeg": paper.decoding_note(open_ended, "oeg")}
    return notes | {"oeg-multi": "; ".join(filter(None, several_turns))}


def _sample_reason(scenario: str, reasons: Mapping[str, str]) -> str:
    """Return the reason that ``reasons`` has for a scenario; for an average, the first reason of any scenario."""
    return next(iter(reasons.values()), "") if scenario == paper.AVERAGE else reasons.get(scenario, "")


def _unfinished_reason(row: Mapping[str, Any]) -> str:
    """Return why a cell or average is not complete: not played, failed, or not judged yet; empty if it is."""
    if row["scenario"] == paper.AVERAGE:
        return "" if row["all_seven"] else "not all seven scenarios are complete"
    done = f"{row['planned'] - row['lacking']:,} of {pluralize(row['planned'], 'episode')} with an answer or verdict"
    return f"unfinished: {done}" if row["lacking"] else "" if row["ours"] is not None else "nothing is scored"


def _agreement_columns(row: Mapping[str, Any], exact: bool, sizes: Sequence[int]) -> dict[str, Any]:
    """Return the columns of agreement: by the number of episodes and the rate of flips if ``exact``, else by the interval."""
    low, high, published = row["low"], row["high"], row["published"]
    if not exact:
        inside = None if low is None or high is None else low - paper.ROUNDING <= published <= high + paper.ROUNDING
        return {"exact": False, "inside": inside}
    flip_share, is_ps = row["flip_rate"] / 100, row["measure"] == "ps"
    error = 0.0 if low is None else (high - low) / (2 * Z)
    if row["scenario"] == paper.AVERAGE:
        variance = sum(1 / size for size in sizes if size) * flip_share / max(len(sizes), 1) ** 2
        flip_error = error * (2 * flip_share) ** 0.5 if is_ps else 100 * variance**0.5
        inside = abs(row["difference"]) <= 2 * paper.ROUNDING + Z * flip_error + FLOAT_ERROR
        return {"exact": True, "inside": inside}
    scored, finished = row["scored"], row["finished"]
    if is_ps:  # a flipped answer draws a new number of suggestions
        episodes = smallest_difference(round(row["ours"] * scored), scored, published, 1)
        inside = abs(episodes) <= Z * error * scored * (2 * flip_share) ** 0.5
    else:  # the paper counts missing answers as wrong
        episodes = smallest_difference(round(row["ours"] * scored / 100), finished, published, 100)
        inside = episodes == 0 or flip_probability(episodes, finished, flip_share) >= ALPHA
    return {"exact": True, "episodes": episodes, "inside": inside}


def smallest_difference(total: int, n: int, published: float, scale: float) -> int:
    """Return ``total`` minus the nearest integer k for which scale * k / n rounds to ``published``.

    ``total`` counts correct episodes (scale 100) or suggestions (scale 1) of ``n`` episodes. If no integer rounds to the
    published figure, the nearest one is used.
    """
    lowest = ceil((published - paper.ROUNDING) * n / scale - FLOAT_ERROR)
    highest = floor((published + paper.ROUNDING) * n / scale + FLOAT_ERROR)
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


def measured_flips(folder: Path) -> dict[str, float]:
    """Return per model the percentage of episodes that became right or wrong: the highest upper bound over all repeats.

    A file that cannot be read counts as absent: the same command writes it again.
    """
    bounds, kinds = dict[str, float](), {"model": pl.String, "correct_high": pl.Float64}
    for file in sorted(folder.glob(RATES_FILE.format("*"))):
        try:
            rows = pl.read_csv(regular.read_bytes(file, checksums.LARGEST), schema_overrides=kinds)
            highest = rows.select("model", "correct_high").drop_nulls().rows()
        except UNREADABLE:
            continue
        for model, high in highest:
            bounds[model] = max(high, bounds.get(model, 0.0))
    return bounds


def _compared_cell(row: Mapping[str, Any]) -> TableCell:
    star = "*" if row["inside"] is False else ""
    difference = format_signed(round(row["difference"], 1) + 0.0)
    return TableCell(f"{row['ours']:.1f}\n{row['published']:.1f} {difference}{star}")
