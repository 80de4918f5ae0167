"""Right answers without the sample's picture (blank, swapped, text-only) next to zero-shot, as a table and a sentence."""

import polars as pl

from envs import in_paper_order
from envs.plural import pluralize
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import missing_episodes
from orchestrator.report.tables.parts import (
    AVERAGE,
    Row,
    average_heading,
    model_conditions,
    one_decimal,
    scenario_cells,
    score_cell,
)
from orchestrator.report.tables.table import Style, Table, TableCell, columns, line
from sweeps.protocol import ZERO_SHOT

GUESS_NOTE = "a guess among four categories is right in 25%; in ROD no answer counts at the first turn"


def unseen_table(run_data: RunData) -> Table:
    """Return accuracy at the end / at the first turn, a line per model and probe, with zero-shot above the probes."""
    conditions = [ZERO_SHOT, *run_data.unseen_conditions]
    rows, means = (_select(frame, conditions) for frame in estimate(run_data))
    if rows.is_empty():
        return Table("unseen", "", columns("model", ()), (), rows)
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    scenarios, lines, ranked = in_paper_order(rows["scenario"]), [], 0
    for model, condition, part in model_conditions(run_data, rows):
        mean = means.filter(model=model, condition=condition).row(0, named=True)
        style: Style = "unfinished" if mean["complete"] < part.height else ""
        average = TableCell(_final_and_first(mean), mean["acc"], style=style)
        scores = scenario_cells(part, scenarios, lambda row: score_cell(row, _final_and_first))
        lines.append(line(f"{model}, {condition}", [*scores, average]))
        ranked += model not in run_data.baselines
    title = (
        "right in the end / at the first turn, percent, where the sample's own picture is not shown, and in zero-shot"
    )
    numbers = pl.concat([rows.drop("cell", "lacking"), means.with_columns(scenario=pl.lit(AVERAGE))], how="diagonal")
    notes = [" ".join(unseen_sentence(run_data)).strip(), GUESS_NOTE]
    heads = columns("model", [*scenarios, average_heading(scenarios)])
    return Table("unseen", title, heads, tuple(lines), numbers, ranked, tuple(filter(None, notes)))


def unseen_sentence(run_data: RunData) -> tuple[str, str]:
    """Return a figure and a sentence about the probe with the highest accuracy of models, or of baselines if there are none.

    Both are empty if no model played a probe and zero-shot.
    """
    all_cells, averages = estimate(run_data)
    means = _with_picture(run_data, averages, ["model"])
    if means.is_empty():
        return "", ""
    probes = means.group_by("condition").agg(pl.col("acc", "seen").mean(), pl.len()).sort(-pl.col("acc"), "condition")
    top = probes.row(0, named=True)
    others = ", ".join(f"{name} {acc:.1f}%" for name, acc in probes.select("condition", "acc").tail(-1).iter_rows())
    cells = _with_picture(run_data, all_cells, ["model", "scenario"]).filter(condition=top["condition"])
    highest = cells.sort(-pl.col("acc"), "model", "scenario").row(0, named=True)
    return (
        f"{top['acc']:.1f}%",
        f"of episodes end right under {top['condition']}, without the sample's picture{f' ({others})' if others else ''}, and "
        f"{top['seen']:.1f}% with it; means over scenarios of {pluralize(top['len'], 'model')}. Highest: {highest['model']} in "
        f"{highest['scenario']}, {highest['acc']:.1f}% ({highest['seen']:.1f}% with it).",
    )


def _with_picture(run_data: RunData, rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return each probe's ``acc`` and zero-shot's as ``seen``: of models, or of baselines if no model was played."""
    scored = _select(rows, [ZERO_SHOT, *run_data.unseen_conditions]).filter(pl.col("acc").is_not_null())
    scored = run_data.models_or_baselines(scored)
    zero_shot = scored.filter(condition=ZERO_SHOT).select(*names, pl.col("acc").alias("seen"))
    return scored.filter(pl.col("condition") != ZERO_SHOT).join(zero_shot, on=names)


def _select(rows: pl.DataFrame, conditions: list[str]) -> pl.DataFrame:
    """Return the multiple-choice rows of these conditions; empty if only zero-shot is among them."""
    part = rows.filter(pl.col("condition").is_in(conditions), protocol="mcqa")
    return part if set(part["condition"]) - {ZERO_SHOT} else part.clear()


def _final_and_first(row: Row) -> str:
    return f"{one_decimal(row, 'acc')} / {one_decimal(row, 'acc_first')}"
