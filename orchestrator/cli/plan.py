"""``plan``: the cells of a sweep, or its forecast on GPUs. Nothing is played or written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import AsJson, ModelSources, Output, Overrides, SweepFile, require_data, with_local_output
from orchestrator.cli.printing import gold_check_lines, print_json, print_lines, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.planning.plan import Plan
    from sweeps.spec import Sweep

LISTED = 5
"""Most lines on left-out products and cells that the summary lists."""
HEADS = ("planned", "done")
Gpus = Annotated[int | None, typer.Option(min=1, max=4096, help="Forecast the sweep on this many GPUs.")]


def plan(
    sweep: SweepFile,
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    model: ModelSources = [],  # noqa: B006
    gpus: Gpus = None,
    gpu_type: Annotated[str, typer.Option(help="h200, h100, a100, l40s or b200.")] = "h200",
    as_json: AsJson = False,
) -> None:
    """Show models, episodes and what is already done; with --gpus, a lower bound of the hours."""
    from orchestrator.cli.sweep_source import load_sweep

    if gpus is None and gpu_type != "h200":
        raise UserError("--gpu-type requires --gpus N")
    readable_sweep = with_local_output(load_sweep(sweep, set_, output, model))
    if gpus is None:
        require_data(readable_sweep, sweep)
        _show_cells(readable_sweep, _model_notes(readable_sweep), as_json)
        return
    from orchestrator.scheduling.forecast.forecast import forecast_lines

    lines = forecast_lines(readable_sweep, gpus, gpu_type)
    print_json({"lines": lines}) if as_json else print_lines(lines)


def _show_cells(sweep: Sweep, notes: Sequence[str], as_json: bool) -> None:
    """Print the total, the table of models, and the notes below it."""
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan, cells_with_progress
    from sweeps.load import skipped_products

    episodes, precision = _apply_precision(sweep, build_plan(sweep))
    cells = cells_with_progress(episodes, Path(sweep.output))
    may_overflow = overflow.lines(episodes)
    left_out = [f"left out: {reason}" for reason in (*skipped_products(sweep), *episodes.left_out)]
    notes = [*may_overflow, *notes, *precision, *_service_costs(sweep, episodes, cells)]
    if as_json:
        print_json({"cells": cells, "notes": [*left_out, *notes]})
        return
    done = sum(row["done"] for row in cells)
    total = f"{len(cells)} cells, {episodes.total_with_stops:,} episodes, {done:,} done"
    rows = ([row["model"], *(f"{row[name]:,}" for name in ("cells", *HEADS))] for row in _sum_by_model(cells))
    table = text_table(("model", "cells", *HEADS), rows, numbers=1 + len(HEADS))
    hidden = len(left_out) - LISTED
    more = [f"left out: {hidden:,} more (--json lists them)"] if hidden > 0 else []
    show(total, table, *map(printable, [*left_out[:LISTED], *more, *notes]))


def _apply_precision(sweep: Sweep, plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan without the episodes that the precision rule has stopped, and lines that explain the stops."""
    if sweep.precision is None:
        return plan, []
    from orchestrator.planning.build_plan import planned_cells
    from orchestrator.precision.stopping import load_rule
    from orchestrator.report.scores.precision_stops import describe_planned_savings, describe_savings

    stopped_plan = plan.with_stops(load_rule(plan, Path(sweep.output)).stops())
    rule = sweep.precision
    savings = describe_savings(rule, planned_cells(stopped_plan))
    return stopped_plan, [*savings, *describe_planned_savings(rule, plan.cells, plan.sizes)]


def _sum_by_model(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per model: its cells, and their sums."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in cells:
        model = cell["cell"].partition("/")[0]
        row = rows.setdefault(model, {"model": model, "cells": 0, **dict.fromkeys(HEADS, 0)})
        row["cells"] += 1
        for name in HEADS:
            row[name] += cell[name]
    return list(rows.values())


def _model_notes(sweep: Sweep) -> list[str]:
    """Return a line for each model that installs packages of its own."""
    from sweeps.registry import describe_requirements

    return list(filter(None, map(describe_requirements, sweep.models_and_judge)))


def _service_costs(sweep: Sweep, plan: Plan, cells: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines on requests and costs: of episodes on services that are not stored, and of the gold check."""
    from orchestrator.datasets.staging import data_folder
    from orchestrator.inspection import service_cost

    pending = {row["cell"]: row["planned"] - row["done"] for row in cells}
    estimates = service_cost.estimates(plan, pending, data_folder(sweep), Path(sweep.output))
    return [*service_cost.lines(estimates, sweep.cluster.max_cost), *gold_check_lines(sweep)]
