"""The tables that go beyond the paper's: paired differences, ranks, replicates, and other readings of the replies."""

from collections.abc import Iterable

import polars as pl

from envs import in_paper_order
from orchestrator.report.measures.clustering import clustering
from orchestrator.report.measures.families import evidence_settings
from orchestrator.report.measures.lenient import READINGS, leniency
from orchestrator.report.measures.mean_bounds import average_bounds
from orchestrator.report.measures.paired_averages import compare_condition_averages
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.measures.ranking import FEWEST_FOR_BEST, format_probability, ranking
from orchestrator.report.measures.robustness import VARIANCE_COLUMNS, robustness
from orchestrator.report.measures.share_changes import share_changes
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import ACTION_SHARES
from orchestrator.report.scores.package_measures import COUNT_SUFFIX, measure_names
from orchestrator.report.statistics.exact_tests import ALPHA
from orchestrator.report.tables.parts import (
    AVERAGE,
    Row,
    average_heading,
    by_column,
    change_cell,
    format_limits,
    format_range,
    model_conditions,
    order_models,
    scenario_cells,
)
from orchestrator.report.tables.table import MISSING, Line, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed
from sweeps.protocol import ZERO_SHOT, Protocol

PAIRED = {
    Protocol.MCQA: ("paired", "accuracy"),
    Protocol.OEG: ("open-ended-paired", "open-ended, share of answers that the judge accepts,"),
    Protocol.TOOLS: ("tools-paired", "tool calls, accuracy"),
    Protocol.OEG_MULTI: ("open-ended-turns-paired", "open-ended over several turns, accuracy"),
}
"""Protocol -> name of its paired table, and the measure that the title names."""


def paired_table(run_data: RunData, protocol: Protocol = Protocol.MCQA) -> Table:
    """Return the change of each condition against zero-shot on the same samples, in points; ``*`` if p is below 0.05."""
    cells = compare_conditions(run_data).filter(protocol=protocol.value)
    averages = compare_condition_averages(run_data).filter(protocol=protocol.value)
    means = {(row["model"], row["condition"]): row for row in averages.iter_rows(named=True)}
    scenarios, lines, ranked = in_paper_order(cells["scenario"]), list[Line](), 0
    for model, condition, part in model_conditions(run_data, cells):
        ranked += model not in run_data.baselines
        rows = by_column(part)
        changes = [change_cell(rows.get(scenario)) for scenario in scenarios]
        mean = change_cell(means.get((model, condition)), interval=True)
        lines.append(line(f"{model}, {condition}", [*changes, mean]))
    name, measure = PAIRED[protocol]
    test, (margin, exploratory) = _describe_test(run_data), evidence_settings(run_data)
    scope = "all models"
    if exploratory and (evidence := run_data.sweep.evidence):
        scope = f"all {exploratory:,} exploratory tests, and separately over means of {evidence.primary}, the primary endpoint"
    title = (
        f"{measure} against zero-shot on the same samples, points; last, the mean over the condition's scenarios with its 95% "
        f"interval (* {test} for cells, a score test for means; Holm over {scope}, p < {ALPHA}; = within {margin:g} points by "
        "two one-sided tests)"
    )
    heads = columns("model", [*scenarios, AVERAGE])
    return Table(name, title, heads, tuple(lines), cells, ranked, fold_baselines=True)


def _describe_test(run_data: RunData) -> str:
    """Return the name of the paired test of cells."""
    clustered = clustering(run_data).filter("counts")["scenario"].n_unique() if run_data.cluster else 0
    if not clustered:
        return "McNemar"
    return "sign flips of clusters" if clustered == len(run_data.samples) else "McNemar, or sign flips of clusters"


def share_changes_table(run_data: RunData) -> Table:
    """Return how hints and random suggestions change the shares of answers, with the paper's figures if published."""
    rows, lines = share_changes(run_data), []
    for model, condition, part in model_conditions(run_data, rows):
        changes = by_column(part, "share")
        lines.append(line(f"{model}, {condition}", [_share_change(changes[share]) for share in ACTION_SHARES]))
    title = (
        "change of the shares of answers against zero-shot, percent of the share before (before to after; points with their "
        "paired 95% interval), averaged over the scenarios complete under both; of the paper's figures only suggestions under "
        "random ones are published as numbers"
    )
    return Table("share-changes", title, columns("model", ACTION_SHARES.values()), tuple(lines), rows)


def _share_change(row: Row) -> TableCell:
    points = f"{format_signed(row['points'])} [{format_signed(row['points_low'])}, {format_signed(row['points_high'])}]"
    percent = "-" if row["percent"] is None else format_signed(row["percent"])
    paper = "" if row["published"] is None else f", paper {format_signed(row['published'])}"
    return TableCell(f"{percent} ({row['before']:.1f} to {row['after']:.1f}; {points}){paper}", row["percent"])


def ranking_table(run_data: RunData) -> Table:
    """Return the order of the models with complete cells, and how certain it is (``measures.ranking``)."""
    numbers = ranking(run_data)
    rows = numbers.filter(protocol="mcqa").iter_rows(named=True)
    bounded = numbers["rank_least"].count() > 0
    lines = tuple(line(row["model"], map(TableCell, _rank_texts(row, bounded))) for row in rows)
    heads = ["accuracy", "samples", "rank", "ranks not excluded", "best of all", "above the next", "difference"]
    heads += ["ranks whatever is missing"] * bounded
    title = (
        f"{ZERO_SHOT}: rank by the average over scenarios on the same samples, a missing answer counts as wrong; probability of "
        "being the best, and of being above the next model; difference to it in points (95% interval)"
    )
    return Table("ranking", title, columns("model", heads), lines, numbers, len(lines))


def _rank_texts(row: Row, bounded: bool) -> Iterable[str]:
    yield from (f"{row['average']:.1f}", f"{row['n']:,}", str(row["rank"]), f"{row['rank_low']} to {row['rank_high']}")
    yield format_probability(row["p_best"]) if row["models"] >= FEWEST_FOR_BEST else "-"
    last = row["next"] is None
    yield "-" if last else format_probability(row["p_beats_next"])
    yield "-" if last else f"{format_signed(row['difference'])} ({format_limits(row, 'difference')})"
    if bounded:
        yield "-" if row["rank_least"] is None else f"{row['rank_least']} to {row['rank_most']}"


def robustness_table(run_data: RunData) -> Table:
    """Return zero-shot accuracy over all replicates, its range, and the parts of its variance (``measures.robustness``)."""
    numbers = robustness(run_data)
    rows = numbers.filter(condition=ZERO_SHOT)
    scenarios, lines = in_paper_order(rows["scenario"]), list[Line]()
    averages = rows.group_by("model").agg(pl.col("acc", "least", "most", *VARIANCE_COLUMNS).mean())
    means = by_column(averages, "model")
    for model in order_models(rows["model"], run_data.baselines):
        cells = scenario_cells(rows.filter(model=model), scenarios, _variance)
        lines.append(line(model, [*cells, _variance(means[model])]))
    title = (
        f"{ZERO_SHOT}: accuracy over all replicates, lowest to highest replicate; parts of the variance of an answer: sample / "
        "wording / option order / random draw of the decoding, percent (- : one level only, so the part before includes it)"
    )
    heads = columns("model", [*scenarios, average_heading(scenarios)])
    return Table("robustness", title, heads, tuple(lines), numbers)


def _variance(row: Row) -> TableCell:
    shares = " / ".join("-" if row[name] is None else f"{row[name]:.0f}" for name in VARIANCE_COLUMNS)
    return TableCell(f"{row['acc']:.1f}, {row['least']:.1f} to {row['most']:.1f}; {shares}", row["acc"])


def readings_table(run_data: RunData) -> Table:
    """Return zero-shot accuracy under the strict, the lenient and the fuzzy reading, averaged over scenarios (``leniency``)."""
    numbers = leniency(run_data).filter(condition=ZERO_SHOT, protocol="mcqa")
    means, lines = by_column(average_bounds(numbers, ["model"], READINGS), "model"), []
    for model in order_models(numbers.filter(pl.col("unparsable") > 0)["model"], run_data.baselines):
        gaps = numbers.filter(model=model).select(READINGS).null_count().row(0, named=True)
        strict, *others = [MISSING if gaps[name] else _reading(means[model], name) for name in READINGS]
        lines.append(line(model, [strict, _range(*others[:2]), _range(*others[2:])]))
    title = (
        f"{ZERO_SHOT}: accuracy where a reply that names no option is wrong (strict, the benchmark's), is read by a tolerant "
        "rule (lenient), or counts as the nearest option (fuzzy); upper figure: if all episodes that would continue ended right"
    )
    return Table("readings", title, columns("model", ("strict", "lenient", "fuzzy")), tuple(lines), numbers)


def _reading(row: Row, name: str) -> TableCell:
    return TableCell(f"{row[name]:.1f}", row[name], format_range(row, name))


def _range(low: TableCell, high: TableCell) -> TableCell:
    """Return both figures in one cell; its interval reaches from the lower bound of ``low`` to the upper bound of ``high``."""
    if low.text == high.text:
        return low
    note = f"{low.note.split('–')[0]}–{high.note.split('–')[-1]}" if low.note and high.note else ""
    return TableCell(f"{low.text} to {high.text}", low.value, note)


def package_measure_tables(run_data: RunData) -> list[Table]:
    """Return a table per measure of an installed package: its mean in each cell, with its 95% interval."""
    return [_package_measure_table(run_data, name) for name in measure_names(run_data.rows.columns)]


def _package_measure_table(run_data: RunData, name: str) -> Table:
    rows = run_data.rows.filter(pl.col(f"{name}{COUNT_SUFFIX}") > 0)
    scenarios, lines = in_paper_order(rows["scenario"]), list[Line]()
    for model in order_models(rows["model"], run_data.baselines):
        pairs = rows.filter(model=model).select("condition", "protocol").unique(maintain_order=True)
        for condition, protocol in pairs.iter_rows():
            part = rows.filter(model=model, condition=condition, protocol=protocol)
            label = f"{model}, {condition}" if protocol == Protocol.MCQA else f"{model}, {condition} ({protocol})"
            lines.append(line(label, scenario_cells(part, scenarios, lambda row: _mean(row, name))))
    title = f"{name}: mean over episodes, with its 95% interval (a measure of an installed package)"
    names = ("cell", "model", "scenario", "condition", "protocol")
    numbers = rows.select(*names, name, f"{name}_low", f"{name}_high", f"{name}{COUNT_SUFFIX}")
    return Table(f"measure-{name}", title, columns("model", scenarios), tuple(lines), numbers, len(lines))


def _mean(row: Row, name: str) -> TableCell:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "" if low is None else f" ({low:.1f} to {high:.1f})"
    return TableCell(f"{row[name]:.1f}{interval}", row[name])
