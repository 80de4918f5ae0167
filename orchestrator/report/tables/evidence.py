"""The tables that go beyond the paper's: the answer, paired changes, ranks, chance, endings, missing replies, cost, packages.

Also the certificates of a run: sentences below its tables, and a column of the cost.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from envs import in_paper_order
from envs.plural import pluralize
from orchestrator.inspection.certificate import footnotes, read_certificates
from orchestrator.report.measures.endings import EndingKind, ending_counts, leniency
from orchestrator.report.measures.estimates import estimate, missing_bounds
from orchestrator.report.measures.exact_chance import lift_over_chance
from orchestrator.report.measures.paired import CELL, comparisons, count_tests, primary_condition, ranking
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.cell_resources import RESOURCE_COLUMNS
from orchestrator.report.scores.metrics import ANSWER_COLUMNS, CACHED, cached_percentages
from orchestrator.report.scores.package_measures import COUNT_SUFFIX, measure_names
from orchestrator.report.tables import parts
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell, columns, format_signed, line
from orchestrator.storage import reused
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Protocol, Sweep

MOST_ROWS = 40
"""Number of rows of missing replies; ``missing.csv`` has all."""


def _table(name: str, rows: Iterable[Line], frame: pl.DataFrame, more: Iterable[Column] = (), ranked: int = 0) -> Table:
    """Return the table with its texts; ``more`` are columns after those of ``parts.TEXTS``."""
    text = {"columns": {}, "texts": (), **parts.TEXTS[name]}
    named = (Column(head, about, head not in text["texts"]) for head, about in text["columns"].items())
    heads = (Column("model", number=False), *named, *more)
    return parts.entitle(name, Table(name, "", heads, tuple(rows), frame, ranked))


def _label(model: str, condition: str, protocol: str) -> str:
    return f"{model}, {condition}" + ("" if protocol == Protocol.MCQA else f" ({protocol})")


def _labeled(run_data: RunData, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of each model, condition and protocol under their label, in the order of the tables."""
    for model, condition, part in parts.model_conditions(run_data, rows):
        for (protocol,), own in part.group_by(["protocol"], maintain_order=True):
            yield _label(model, condition, str(protocol)), own


def answer_table(run_data: RunData) -> Table:
    """Return the shares of episodes by their first reply, averaged over scenarios, a line per model and condition."""
    cells, averages = (frame.drop_nulls("asks") for frame in estimate(run_data))
    names: list[str] = parts.TEXTS["answer"]["measures"]
    rows = ((label, part.row(0, named=True)) for label, part in _labeled(run_data, averages))
    lines = [line(label, [parts.measure_cell(row, name) for name in names]) for label, row in rows]
    ranked = averages.filter(~pl.col("model").is_in(list(run_data.baselines))).height
    frames = (cells, averages.with_columns(scenario=pl.lit(parts.AVERAGE)))
    numbers = pl.concat([frame.select(*CELL, *ANSWER_COLUMNS) for frame in frames]).sort(CELL)
    return _table("answer", lines, numbers, ranked=ranked)


def paired_table(run_data: RunData) -> Table:
    """Return the change of each condition against zero-shot on the same samples, a line per model and condition."""
    cells, averages = comparisons(run_data).conditions, comparisons(run_data).condition_averages
    rows = run_data.models_or_baselines(averages)
    ordered = [part.sort("protocol") for _, _, part in parts.model_conditions(run_data, rows)]
    primary = primary_condition(run_data.sweep)
    notes = [
        f"Points of accuracy with 95% intervals. * p < 0.05 after Holm's correction: the primary endpoint, average accuracy "
        f"under {primary}, over models; all others as one family of {count_tests(run_data):,} tests. "
        "= proven to be within the margin of [evidence], by default 2 points.",
    ]
    asked = rows.drop_nulls("ps_difference")
    if asked.height and not (asked["loops_difference"] != 0).any():
        notes.append(
            "No episode ended at the turn limit more or less often, so differences by such episodes are not seen."
        )
    return replace(change_table(pl.concat(ordered) if ordered else rows, cells), notes=tuple(notes))


def change_table(averages: pl.DataFrame, cells: pl.DataFrame) -> Table:
    """Return a line per average difference: accuracy, suggestions and loops with intervals, then accuracy in each scenario."""
    scenarios, lines = in_paper_order(cells["scenario"]), list[Line]()
    for mean in averages.iter_rows(named=True):
        same = {name: mean[name] for name in ("run", "model", "condition", "protocol") if name in mean}
        rows = parts.by_column(cells.filter(**same))
        changes = [parts.signed_cell(rows.get(name), "difference", interval=False, p="p_holm") for name in scenarios]
        asking = parts.signed_cell(mean, "ps_difference", 2, p="ps_p_holm"), parts.signed_cell(mean, "loops_difference")
        label = _label(mean["model"], mean["condition"], mean["protocol"])
        lines.append(line(label, [parts.signed_cell(mean, "difference", p="p_holm"), *asking, *changes]))
    more = (Column(scenario, "accuracy, points") for scenario in scenarios)
    return _table("paired", lines, cells, more)


def ranking_table(run_data: RunData) -> Table:
    """Return the order of the models with complete cells, with the ranks that are not excluded."""
    numbers, lines = ranking(run_data), list[Line]()
    for row in numbers.filter(protocol="mcqa").iter_rows(named=True):
        bounds = TableCell(f"{row['rank_low']} to {row['rank_high']}")
        counts = [parts.number_cell(row[name], form) for name, form in parts.TEXTS["ranking"]["formats"].items()]
        lines.append(line(row["model"], [*counts, bounds]))
    return _table("ranking", lines, numbers, ranked=len(lines))


def chance_table(run_data: RunData) -> Table:
    """Return accuracy above blind choice by scenario, a line per model and condition."""
    numbers = lift_over_chance(run_data).filter(protocol="mcqa")
    known = run_data.models_or_baselines(numbers.drop_nulls("lift"))
    scenarios, lines = in_paper_order(known["scenario"]), list[Line]()
    for label, part in _labeled(run_data, known):
        mean = float(part["lift"].mean())  # type: ignore[arg-type]
        cells = parts.scenario_cells(part, scenarios, lambda row: TableCell(format_signed(row["lift"])))
        lines.append(line(label, [*cells, TableCell(format_signed(mean))]))
    return _table("chance", lines, numbers, map(Column, [*scenarios, "mean"]))


def endings_table(run_data: RunData) -> Table:
    """Return how the episodes of each model and condition ended, percent averaged over scenarios."""
    numbers = ending_counts(run_data)
    model_rows = run_data.models_or_baselines(numbers.filter(protocol="mcqa"))
    lines = list[Line]()
    for label, part in _labeled(run_data, model_rows):
        share = pl.col("percent").sum() / part["scenario"].n_unique()
        sums = dict(part.group_by("kind").agg(share).iter_rows())
        lines.append(line(label, [parts.number_cell(sums.get(kind.value)) for kind in EndingKind]))
    return _table("endings", lines, numbers)


def missing_table(run_data: RunData) -> Table:
    """Return the bounds of accuracy where more than 1% is missing, and accuracy under another reading of unreadable replies."""
    numbers = missing_bounds(run_data)
    is_cell, share = pl.col("scenario") != parts.AVERAGE, pl.col("missing") / pl.col("n")
    rows = numbers.sort(is_cell, -share, "model", maintain_order=True)
    lines = [_bounds_line(row) for row in rows.head(MOST_ROWS).iter_rows(named=True)]
    notes = [f"{pluralize(rows.height - MOST_ROWS, 'more row')} in missing.csv"] if rows.height > MOST_ROWS else []
    return replace(_table("missing", [*lines, *_reading_lines(run_data)], numbers), notes=tuple(notes))


def _bounds_line(row: parts.Row) -> Line:
    value, *ends = (row[name] for name in ("value", "least", "most", "least_low", "most_high"))
    texts, share = [parts.number_cell(end).text for end in ends], 100 * row["missing"] / row["n"]
    names = map(TableCell, (f"{row['model']}, {row['condition']}", row["scenario"], "missing"))
    count = TableCell(f"{row['missing']:,} of {row['n']:,}", note=f"{share:.1f}%")
    span = TableCell(f"{texts[0]} to {texts[1]}", note=f"{texts[2]} to {texts[3]}")
    return (*names, count, parts.number_cell(value), span)


def _reading_lines(run_data: RunData) -> Iterator[Line]:
    """Yield a line per model with unreadable replies: zero-shot accuracy if a tolerant rule reads them."""
    own = {"condition": ZERO_SHOT, "protocol": Protocol.MCQA.value}
    numbers = run_data.models_or_baselines(leniency(run_data).filter(**own))
    means = parts.by_column(estimate(run_data).averages.filter(**own), "model")
    for model in parts.order_models(numbers.filter(pl.col("unparsable") > 0)["model"], run_data.baselines):
        part = numbers.filter(model=model)
        disagree, unknown = int(part["disagrees"].sum()), part["would_correct"].null_count() > 0
        least, most = part.select(pl.col("acc_lenient", "acc_lenient_most").mean()).row(0)
        what = "unreadable, read leniently" + (f"; {disagree:,} disagree with themselves" if disagree else "")
        count = f"{int(part['unparsable'].sum()):,} of {int(part['scored'].sum()):,}"
        span = MISSING if unknown else TableCell(f"{least:.1f} to {most:.1f}")
        names = map(TableCell, (f"{model}, {ZERO_SHOT}", parts.AVERAGE, what, count))
        yield (*names, parts.measure_cell(means[model], "acc"), span)


def cost_table(run_data: RunData) -> Table:
    """Return what each model took, and what it received: tokens, money, GPU time and its certificate."""
    numbers, lines = resources(run_data), list[Line]()
    tokens = (pl.col("prompt_tokens").sum() + pl.col("reply_tokens").sum()).alias("tokens")
    sums = numbers.group_by("model").agg(pl.col("played", "cost", "gpu_hours").sum(), tokens)
    inputs = parts.by_column(certificate_rows(run_data), "model")
    for row in sums.filter(pl.col("tokens") > 0).sort("model").iter_rows(named=True):
        amounts = [parts.number_cell(row[name] or None, form) for name, form in parts.TEXTS["cost"]["formats"].items()]
        certificate = inputs.get(row["model"], {"certificate": MISSING.text})["certificate"]
        lines.append(line(row["model"], [*amounts, TableCell(certificate)]))
    return _table("cost", lines, numbers)


def package_measure_tables(run_data: RunData) -> Iterator[Table]:
    """Yield a table per measure of an installed package: its mean in each cell, with its 95% interval."""
    for name in measure_names(run_data.rows.columns):
        rows = run_data.rows.filter(pl.col(f"{name}{COUNT_SUFFIX}") > 0)
        scenarios, lines = in_paper_order(rows["scenario"]), list[Line]()
        for label, part in _labeled(run_data, rows):
            lines.append(line(label, parts.scenario_cells(part, scenarios, partial(parts.measure_cell, name=name))))
        numbers = rows.select("cell", *CELL, name, f"{name}_low", f"{name}_high", f"{name}{COUNT_SUFFIX}")
        title = f"{name}: mean over episodes (a package's measure)"
        yield Table(f"measure-{name}", title, columns("model", scenarios), tuple(lines), numbers, len(lines))


def input_notes(sweep: Sweep, folder: Path) -> list[str]:
    """Return sentences on what extends the paper's protocol, and on models whose input is not certified to be the package's."""
    extensions = f"Extensions of the paper's protocol: {list_first(sweep.extensions)}."
    return [*([extensions] if sweep.extensions else []), *footnotes(sweep.models, read_certificates(folder))]


def add_notes(table: Table, notes: Sequence[str]) -> Table:
    """Return the table with these sentences below its own notes."""
    return replace(table, notes=(*table.notes, *notes)) if notes else table


def certificate_rows(run_data: RunData) -> pl.DataFrame:
    """Return one row per model that has a certificate or needs one: its engine, status, outcome and weights."""
    certificates = read_certificates(run_data.folder)
    rows = []
    for model in run_data.sweep.models:
        if certificate := certificates.get(model.name):
            outcome, weights = certificate.describe(), certificate.weights
            rows.append((model.name, model.backend, certificate.status, outcome, weights))
        elif model.is_local:
            rows.append((model.name, model.backend, "missing", "", ""))
    schema = dict.fromkeys(("model", "engine", "certificate", "outcome", "weights"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


@cached_per_run
def resources(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell: played, reused (episodes), prompt_tokens, reply_tokens, ``CACHED``, cost, gpu_hours.

    Only episodes that were played in this folder count; reused ones cost nothing. ``cost`` is in the currency of the prices;
    ``gpu_hours`` (``scores.cell_resources``) is null if not measured.
    """
    reused_keys = reused.read_reused(run_data.folder).filter(pl.col("judge").is_null()).select("key")
    joins = (run_data.episodes.join(reused_keys, on="key", how=how) for how in ("anti", "semi"))
    played, taken = (rows.group_by("cell") for rows in joins)
    tokens = pl.col("prompt_tokens", "reply_tokens", "cost").sum()
    sums = played.agg(pl.len().alias("played"), tokens, *cached_percentages())
    names = ["cell", "model", "scenario", "condition", "protocol"]
    counts = ["played", "reused", "prompt_tokens", "reply_tokens"]
    rows = run_data.planned.select(names).join(sums, on="cell", how="left")
    rows = rows.join(taken.agg(pl.len().alias("reused")), on="cell", how="left")
    rows = rows.with_columns(pl.col(counts).cast(pl.Int64).fill_null(0), pl.col("cost").fill_null(0.0)).sort("cell")
    rows = rows.join(run_data.rows.select("cell", *RESOURCE_COLUMNS), on="cell", how="left", maintain_order="left")
    return rows.select(*names, *counts, *CACHED, "cost", *RESOURCE_COLUMNS)
