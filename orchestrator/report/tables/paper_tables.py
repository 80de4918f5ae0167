"""Accuracy and suggestions as in the paper's tables: by scenario, by condition, and against the clear image."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from envs import in_paper_order
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData, rank_of
from orchestrator.report.scores.metrics import is_headline, missing_episodes
from orchestrator.report.scores.package_measures import measure_names
from orchestrator.report.tables import parts
from orchestrator.report.tables.paper_comparison import compare_with_paper, comparison_notes
from orchestrator.report.tables.table import Table, TableCell, columns, line
from sweeps.conditions import CONDITIONS
from sweeps.protocol import HEADLINE, ZERO_SHOT, Protocol

MOST_NOTES = 6
"""Most sentences on the comparison with the paper below the main table; `compare` prints all."""
OTHERS = (Protocol.OEG_MULTI.value, Protocol.TOOLS.value)
"""Protocols with turns other than multiple choice."""


def result_tables(rows: pl.DataFrame, baselines: Container[str] = ()) -> Iterator[Table]:
    """Yield a table for each condition and protocol of rows of results, in the paper's order; baselines come last."""
    if "decision_map" in rows.columns:  # a decision map has no accuracy
        rows = rows.filter(~pl.col("decision_map"))
    answered = pl.col("answered").fill_null(0) if "answered" in rows.columns else pl.lit(0)
    unscored = (pl.col("scored") == 0) & (answered == 0) & (pl.col("finished") > pl.col("errors"))
    scored_rows = rows.filter(~unscored).sort(rank_of("condition", CONDITIONS), "condition", "protocol", "scenario")
    names = measure_names(rows.columns)
    for (name, protocol), part in scored_rows.group_by(["condition", "protocol"], maintain_order=True):
        about = parts.TEXTS["results"][str(protocol)]
        score = f"score ({HEADLINE}), " if is_headline(part) else ""
        title = f"{name}: {score}{' / '.join((about['title'], *names))}{_without_verdict(part)}"
        table = parts.scenario_table(part, about["measures"] | dict.fromkeys(names, ".1f"), baselines)
        yield replace(table, name=str(name), title=title)


def _without_verdict(rows: pl.DataFrame) -> str:
    if "judged" not in rows.columns or not rows["answered"].sum():
        return ""
    judges = ", ".join(rows["judge"].drop_nulls().unique().sort()) or "nobody"
    answered = int(rows["answered"].sum())
    return f" (by {judges}; {answered - int(rows['judged'].sum()):,} of {answered:,} answers without a verdict)"


def main_table(run_data: RunData) -> Table:
    """Return models x scenarios under zero-shot, acc and ps, the average at the end (paper, Table 1), beside the published."""
    names = {"condition": ZERO_SHOT, "protocol": "mcqa"}
    compared = compare_with_paper(run_data).filter(**names)
    published = compared.filter(pl.col("published").is_not_null())
    figures = {(row["model"], row["scenario"], row["measure"]): row for row in published.iter_rows(named=True)}
    table, rows = _run_table(run_data, **names), []
    scenarios = [*in_paper_order(run_data.rows.filter(**names)["scenario"]), parts.AVERAGE]
    for name, *cells in table.rows:
        beside = (_beside_paper(cell, figures, name.text, at) for cell, at in zip(cells, scenarios, strict=True))
        rows.append((name, *beside))
    notes = (*comparison_notes(compared)[:MOST_NOTES], *table.notes)
    table = replace(table, rows=tuple(rows), numbers=_numbers(run_data, **names), notes=notes)
    main, is_score = parts.entitle("main", table), is_headline(run_data.rows.filter(**names))
    return replace(main, title=f"Score ({HEADLINE}), as the paper's main table") if is_score else main


def _run_table(run_data: RunData, condition: str, protocol: str, scenarios: Sequence[str] = ()) -> Table:
    rows = run_data.rows.filter(condition=condition, protocol=protocol)
    return parts.scenario_table(rows, parts.ACC_AND_PS, run_data.baselines, scenarios)


def _beside_paper(
    cell: TableCell, figures: Mapping[tuple[str, str, str], parts.Row], model: str, scenario: str
) -> TableCell:
    """Return the cell with the published figures as its note; a star marks those that disagree."""
    rows = [figures.get((model, scenario, measure)) for measure in ("acc", "ps")]
    texts = ["-" if row is None else f"{row['published']:.1f}{'*' * (row['inside'] is False)}" for row in rows]
    return replace(cell, note=" / ".join(texts)) if any(rows) else cell


def conditions_table(run_data: RunData) -> Table:
    """Return models x conditions, averaged over scenarios.

    Before conditions of fewer scenarios, such as those with solved examples, stands zero-shot over just these.
    """
    rows = run_data.rows.filter(protocol="mcqa")
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    names = [name for name in parts.conditions_of(run_data, rows) if name != "reference"]
    heads: dict[str, pl.DataFrame] = {}
    for scenarios in sorted(dict.fromkeys(run_data.conditions[name].scenarios for name in names), key=bool):
        own = [name for name in names if run_data.conditions[name].scenarios == scenarios]
        if scenarios:
            subset = rows.filter(pl.col("scenario").is_in(scenarios), condition=ZERO_SHOT)
            heads[f"{ZERO_SHOT} ({', '.join(scenarios)})"] = subset
        heads |= {name: rows.filter(condition=name) for name in own}
    models = parts.order_models(rows["model"], run_data.baselines)
    lines = [
        line(m, [parts.mean_cell(part.filter(model=m), parts.ACC_AND_PS) for part in heads.values()]) for m in models
    ]
    ranked = len(set(models) - run_data.baselines)
    averages, notes = estimate(run_data).averages.filter(protocol="mcqa"), tuple(parts.error_notes(rows))
    return parts.entitle("conditions", Table("", "", columns("model", heads), tuple(lines), averages, ranked, notes))


def reference_table(run_data: RunData) -> Table:
    """Return accuracy on the clear image and under zero-shot, by scenario (paper, Table 6 and Figure 3)."""
    mcqa = run_data.rows.filter(protocol="mcqa")
    played = mcqa.filter(condition=ZERO_SHOT).select("model", "scenario", zero_shot="acc")
    rows = mcqa.filter(condition="reference").join(played, on=["model", "scenario"], how="left")
    table = parts.scenario_table(rows, {"acc": ".1f", "zero_shot": ".1f"}, run_data.baselines)
    numbers = _numbers(run_data, condition=("reference", ZERO_SHOT), protocol="mcqa")
    return parts.entitle("reference", replace(table, numbers=numbers))


def other_protocols_table(run_data: RunData) -> Table:
    """Return acc and ps of open-ended answers over several turns (paper, Table 10) and of tool calls."""
    cells = run_data.rows.filter(pl.col("protocol").is_in(OTHERS))
    lines, tables = [], []
    for protocol in OTHERS:
        for condition in parts.conditions_of(run_data, cells.filter(protocol=protocol)):
            tables.append(_run_table(run_data, condition, protocol, in_paper_order(cells["scenario"])))
            label = f", {condition} ({protocol})"
            lines += [(TableCell(name.text + label), *scores) for name, *scores in tables[-1].rows]
    heads = tables[0].columns if tables else columns("model", ())
    return parts.entitle("turns", Table("", "", heads, tuple(lines), _numbers(run_data, protocol=OTHERS)))


def _numbers(run_data: RunData, **names: str | tuple[str, ...]) -> pl.DataFrame:
    """Return cells and averages (as scenario ``avg``) with every count and interval, for the CSV file."""
    same = [pl.col(name).is_in([value] if isinstance(value, str) else value) for name, value in names.items()]
    rows = pl.concat([frame.filter(same) for frame in estimate(run_data)], how="diagonal").drop("cell")
    rows = rows.with_columns(pl.col("scenario").fill_null(parts.AVERAGE))
    return rows.sort("model", "condition", "protocol", "scenario", maintain_order=True)
