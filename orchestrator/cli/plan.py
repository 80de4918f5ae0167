"""``plan``: the cells of a sweep, or its forecast on GPUs. Nothing is played or written."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from envs.errors import UserError
from orchestrator.cli.options import AsJson, ModelSources, Output, Overrides, readable_folder
from orchestrator.cli.printing import print_json, print_lines, print_result
from orchestrator.cli.sweep_source import load_sweep
from orchestrator.datasets.staging import data_folder
from orchestrator.inspection import overflow, service_cost
from orchestrator.planning.build_plan import build_plan, cells_with_progress, planned_cells
from orchestrator.planning.plan import Plan
from orchestrator.report.tables.table import text_table
from sweeps.checkpoint import source_fault
from sweeps.load import skipped_products
from sweeps.registry import describe_requirements
from sweeps.spec import Sweep
from sweeps.sweep_file import require_data

LISTED = 5
"""Most lines on left-out products and cells that the summary lists."""
SweepFile = Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep file or shipped sweep (`ls sweeps`).")]
Gpus = Annotated[int | None, typer.Option(min=1, max=4096, help="Forecast the sweep on this many GPUs.")]
GpuType = Annotated[str, typer.Option(help="h200, h100, a100, l40s or b200.")]


def plan(
    sweep: SweepFile,
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    model: ModelSources = [],  # noqa: B006
    gpus: Gpus = None,
    gpu_type: GpuType = "h200",
    as_json: AsJson = False,
) -> None:
    """Show models, episodes and what is already done; with --gpus, a lower bound of the hours."""
    if gpus is None and gpu_type != "h200":
        raise UserError("--gpu-type requires --gpus N")
    loaded = load_sweep(sweep, set_, output, model)
    loaded = loaded.model_copy(update={"output": str(readable_folder(loaded.output, started=False))})
    if gpus is not None:
        from orchestrator.scheduling.forecast.forecast import forecast_lines

        lines = forecast_lines(loaded, gpus, gpu_type)
        print_json({"lines": lines}) if as_json else print_lines(lines)
        return
    require_data(loaded.data, sweep)
    _show_cells(loaded, as_json)
    faults = {model.name: source_fault(model) for model in loaded.models_and_judge}
    if reasons := [f"{name}: {fault}" for name, fault in faults.items() if fault]:
        raise UserError("; ".join(reasons))


def _show_cells(sweep: Sweep, as_json: bool) -> None:
    """Print the total, the table of models, and the notes below it."""
    episodes, precision = _apply_precision(sweep, build_plan(sweep))
    cells = cells_with_progress(episodes, Path(sweep.output))
    left_out = [f"left out: {reason}" for reason in (*skipped_products(sweep), *episodes.left_out)]
    packages = filter(None, map(describe_requirements, sweep.models_and_judge))
    notes = [*overflow.lines(episodes), *packages, *precision, *_service_costs(sweep, episodes, cells)]
    hidden = len(left_out) - LISTED
    more = [f"left out: {hidden:,} more (--json lists them)"] if hidden > 0 else []
    table = text_table(("model", "cells", "planned", "done"), _sum_by_model(cells), numbers=3)
    total = f"{len(cells)} cells, {episodes.total_with_stops:,} episodes, {sum(cell['done'] for cell in cells):,} done"
    document = {"cells": cells, "notes": [*left_out, *notes]}
    print_result(as_json, document, total, table, *left_out[:LISTED], *more, *notes)


def _sum_by_model(cells: Sequence[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Yield a model, its number of cells, and its planned and finished episodes."""
    for model in dict.fromkeys(cell["model"] for cell in cells):
        own = [cell for cell in cells if cell["model"] == model]
        yield model, len(own), *(sum(cell[name] for cell in own) for name in ("planned", "done"))


def _apply_precision(sweep: Sweep, plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan without the episodes that the precision rule has stopped, and lines that explain the stops."""
    if sweep.precision is None:
        return plan, []
    from orchestrator.precision.stopping import load_rule

    stopped_plan = plan.with_stops(load_rule(plan, Path(sweep.output)).stops())
    return stopped_plan, [sweep.precision.describe_savings(planned_cells(stopped_plan))]


def _service_costs(sweep: Sweep, plan: Plan, cells: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines on requests and costs: of episodes on services that are not stored, and of the gold check."""
    pending = {row["cell"]: row["planned"] - row["done"] for row in cells}
    estimates = service_cost.estimates(plan, pending, data_folder(sweep))
    lines = list(service_cost.lines(estimates, sweep.cluster.max_cost))
    if sweep.judge is not None and sweep.is_judged:
        from orchestrator.gold.gold_check import describe_cost

        lines += describe_cost(sweep.judge, Path(sweep.output))
    return lines
