"""``plan``: the cells of a sweep, its forecast on GPUs, or the samples that it needs.

Nothing is played, and nothing is written but the picture of the timeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.text.printable import printable
from orchestrator.cli.options import (
    AsJson,
    More,
    Output,
    Overrides,
    Reuse,
    SkipBad,
    SweepFile,
    load_sweep,
    require_data,
    reusable_folders,
    with_local_output,
)
from orchestrator.cli.printing import gold_check_lines, print_json, print_lines, text_table
from orchestrator.cli.train import training_lines
from orchestrator.monitoring.console import show
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    from orchestrator.planning.plan import Plan
    from sweeps.spec import Sweep

LISTED = 5
"""Most lines on left-out products and cells that the summary lists."""
NODE_GPUS = 8
"""The default of --gpus when --precision or --detect computes GPU-hours."""
Gpus = Annotated[int | None, typer.Option(min=1, max=4096, help="Forecast the sweep on this many GPUs.")]
Precision = Annotated[float | None, typer.Option(min=0.05, max=50, help="Samples for an interval of +- POINTS.")]
Detect = Annotated[float | None, typer.Option(min=0.1, max=50, help="Samples to find a difference of POINTS.")]


def plan(
    sweep: SweepFile,
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    skip_bad: SkipBad = False,
    more: More = [],  # noqa: B006
    reuse: Reuse = [],  # noqa: B006
    gpus: Gpus = None,
    gpu_type: Annotated[str, typer.Option(help="h200, h100, a100, l40s or b200.")] = "h200",
    price: Annotated[float | None, typer.Option(min=0, help="What a GPU-hour costs you.")] = None,
    timeline: Annotated[Path | None, typer.Option(metavar="PNG", help="Write a picture of the timeline.")] = None,
    precision: Precision = None,
    detect: Detect = None,
    cells: Annotated[bool, typer.Option("--cells", help="List every cell and every note.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show models, episodes and what is already done; with --gpus, hours, a lower bound, cost and a timeline.

    With --precision or --detect: the samples per cell that are needed, and their GPU-hours. With --reuse: the episodes that
    other runs already have.
    """
    sizing = precision is not None or detect is not None
    if gpus is None and (price is not None or timeline is not None or (gpu_type != "h200" and not sizing)):
        raise SweepError("--price, --timeline and --gpu-type require --gpus N")
    if reuse and (gpus is not None or sizing):
        raise SweepError("--reuse counts episodes and cannot be combined with --gpus, --precision or --detect")
    readable_sweep = with_local_output(load_sweep(sweep, set_, output, skip_bad, more))
    if sizing:
        from orchestrator.report.measures import sample_size  # scipy takes a second to import

        lines = sample_size.describe_sample_sizes(readable_sweep, precision, detect, gpus or NODE_GPUS, gpu_type)
    elif gpus is not None:
        from orchestrator.scheduling.forecast.forecast import forecast_lines

        training = training_lines(sweep, set_, gpu_type, gpus)
        lines = [*forecast_lines(readable_sweep, gpus, gpu_type, price, timeline), *training]
    else:
        require_data(readable_sweep, sweep)
        notes = [*_model_notes(readable_sweep), *training_lines(sweep, set_, gpu_type)]
        _show_cells(readable_sweep, notes, as_json, reusable_folders(reuse), cells)
        return
    print_json({"lines": lines}) if as_json else print_lines(lines)


def _show_cells(
    sweep: Sweep, notes: Sequence[str], as_json: bool, reuse: Sequence[tuple[str, Path]], by_cell: bool
) -> None:
    """Print the total, the table of models or cells, and the notes below it."""
    from orchestrator.datasets.staging import data_folder
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan, cells_with_progress
    from sweeps.load import skipped_products

    episodes, precision = _apply_precision(sweep, build_plan(sweep))
    cells = cells_with_progress(episodes, Path(sweep.output))
    may_overflow = overflow.lines(overflow.risks(episodes, data_folder(sweep)))
    left_out = [f"left out: {reason}" for reason in (*skipped_products(sweep), *episodes.left_out)]
    reused = _count_reused(sweep, episodes, cells, reuse)
    costs = _service_costs(sweep, episodes, cells)
    if as_json:
        print_json({"cells": cells, "notes": [*left_out, *may_overflow, *notes, *precision, *reused, *costs]})
        return
    heads = ("planned", "done", *(["reused"] if reuse else []))
    done = sum(row["done"] for row in cells)
    total = f"{len(cells)} cells, {episodes.total_with_stops:,} episodes, {done:,} done"
    summary = cells if by_cell else _sum_by_model(cells, heads)
    names = ("cell",) if by_cell else ("model", "cells")
    rows = ([f"{row[name]:,}" if name in heads else str(row[name]) for name in (*names, *heads)] for row in summary)
    table = text_table((*names, *heads), rows, numbers=len(heads) + len(names) - 1)
    hidden = 0 if by_cell else max(0, len(left_out) - LISTED)
    more = [f"left out: {hidden:,} more (--cells lists them)"] if hidden else []
    listed = left_out[: len(left_out) - hidden]
    show(total, table, *listed, *more, *may_overflow, *notes, *precision, *map(printable, [*reused, *costs]))


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
    lines = [*savings, *describe_planned_savings(rule, plan.cells, plan.sizes)]
    return stopped_plan, lines


def _sum_by_model(cells: Sequence[dict[str, Any]], heads: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per model: its cells and the sums of the columns ``heads``."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in cells:
        model = cell["cell"].partition("/")[0]
        row = rows.setdefault(model, {"model": model, "cells": 0, **dict.fromkeys(heads, 0)})
        row["cells"] += 1
        for name in heads:
            row[name] += cell[name]
    return list(rows.values())


def _model_notes(sweep: Sweep) -> list[str]:
    """Return a line for each model that installs packages of its own."""
    from sweeps.registry import describe_requirements

    return [printable(line) for line in map(describe_requirements, sweep.models_and_judge) if line]


def _service_costs(sweep: Sweep, plan: Plan, cells: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines on requests and costs: of episodes on services that are neither stored nor reused, and of the gold check."""
    from orchestrator.datasets.staging import data_folder
    from orchestrator.inspection import service_cost

    pending = {row["cell"]: row["planned"] - row["done"] - row.get("reused", 0) for row in cells}
    estimates = service_cost.estimates(plan, pending, data_folder(sweep), Path(sweep.output))
    return [*service_cost.lines(estimates, sweep.cluster.max_cost), *gold_check_lines(sweep)]


def _count_reused(
    sweep: Sweep, plan: Plan, cells: list[dict[str, Any]], folders: Sequence[tuple[str, Path]]
) -> list[str]:
    """Add to each cell's row the episodes that these folders have, and return a line per folder."""
    if not folders:
        return []
    from orchestrator.datasets.staging import pin_data
    from orchestrator.merging import reuse

    reusable = reuse.find_reusable(pin_data(sweep), plan, Path(sweep.output), folders)
    counts = reuse.reusable_per_cell(reusable)
    for row in cells:
        row["reused"] = counts.get(row["cell"], 0)
    return [line for folder in reusable for line in folder.lines]
