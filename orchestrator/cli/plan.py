"""``plan``: what a sweep would play, its forecast on GPUs, and how many samples it needs; and the options that name a sweep.

Nothing is played and nothing is written but the timeline's picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from actors.printable import printable
from envs.samples import BadData
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import viewed
from orchestrator.cli.train import plan_lines
from orchestrator.monitoring.console import show
from sweeps.shipped import missing
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    from orchestrator.planning.plan import Plan
    from sweeps.spec import Sweep

GPUS_OF_A_NODE = 8
"""What GPU-hours of a sample size are reckoned for where --gpus is left out."""
SweepFile = Annotated[
    Path, typer.Argument(metavar="SWEEP", help="A sweep file, or the name of one that ships (`ls sweeps`).")
]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the sweep file.")]
Output = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="The run folder, or s3://BUCKET/FOLDER (default outputs/<name>)."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines of the data out, and count them.")]
More = Annotated[
    list[Path],
    typer.Option("--model", metavar="FILE", help="Play the \\[\\[model]] of this file too (`train` writes one)."),
]
Reuse = Annotated[
    list[str],
    typer.Option(
        "--reuse",
        metavar="DIR",
        help="A run folder, or s3://BUCKET/FOLDER, whose episodes are taken, not played; may repeat.",
    ),
]
Gpus = Annotated[int | None, typer.Option(min=1, max=4096, help="Forecast the sweep on so many GPUs.")]
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
    timeline: Annotated[Path | None, typer.Option(metavar="PNG", help="Where the timeline picture goes.")] = None,
    precision: Precision = None,
    detect: Detect = None,
    as_json: AsJson = False,
) -> None:
    """Show cells, episodes, and what is already done; with --gpus, hours, lower bound, cost and a timeline.

    With --precision or --detect: how many samples a cell needs, and the GPU-hours that they take. With --reuse: how many
    episodes other runs have.
    """
    sized = precision is not None or detect is not None
    if gpus is None and (price is not None or timeline is not None or (gpu_type != "h200" and not sized)):
        raise SweepError("--price, --timeline and --gpu-type require --gpus N")
    if reuse and (gpus is not None or sized):
        raise SweepError("--reuse counts episodes; leave --gpus, --precision and --detect out beside it")
    found = _local(sweep_of(sweep, set_, output, skip_bad, more))
    if sized:
        from orchestrator.report import sample_size  # scipy takes a second to import

        lines = sample_size.lines(found, precision, detect, gpus or GPUS_OF_A_NODE, gpu_type)
    elif gpus is not None:
        from orchestrator.scheduling.forecast.summary import forecast_lines

        to_learn = plan_lines(sweep, set_, gpu_type, gpus)
        lines = [*forecast_lines(found, gpus, gpu_type, price, timeline), *to_learn]
    else:
        data_found(found, sweep)
        _show_cells(found, plan_lines(sweep, set_, gpu_type), as_json, reusable_of(reuse))
        return
    if as_json:
        show_json({"lines": lines})
    else:
        print(*map(printable, lines), sep="\n")


def data_found(sweep: Sweep, file: Path) -> None:
    """Raises BadData, saying where it was looked for, when the data folder of the sweep is not there."""
    if why := missing(sweep.data, file):
        raise BadData(why)


def reusable_of(names: Sequence[str]) -> list[tuple[str, Path]]:
    """The folders that ``--reuse`` names, as typed and where they can be read; raises RunFolderError."""
    return [(name, viewed(name)) for name in dict.fromkeys(names)]


def _show_cells(sweep: Sweep, to_learn: Sequence[str], as_json: bool, reuse: Sequence[tuple[str, Path]] = ()) -> None:
    """Print the table of cells, and what stands below it."""
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan, planned_and_done
    from sweeps.load import skipped

    numbering, precise = _precise(sweep, build_plan(sweep))
    cells = planned_and_done(numbering, Path(sweep.output))
    may_overflow = overflow.lines(overflow.risks(numbering))
    left_out = [f"left out: {reason}" for reason in (*skipped(sweep), *numbering.left_out)]
    taken = _reused(sweep, numbering, cells, reuse)
    costs = _costs(sweep, numbering, cells)
    if as_json:
        show_json({"cells": cells, "notes": [*left_out, *may_overflow, *to_learn, *precise, *taken, *costs]})
        return
    table = Table("cell", "planned", "done", *(["reused"] if reuse else []))
    for row in cells:
        table.add_row(row["cell"], *(f"{row[name]:,}" for name in ("planned", "done", "reused") if name in row))
    done = sum(row["done"] for row in cells)
    total = f"{len(cells)} cells, {numbering.wanted:,} episodes, {done:,} done"
    show(table, *left_out, *may_overflow, *to_learn, *precise, *map(printable, [*taken, *costs]), total)


def _precise(sweep: Sweep, plan: Plan) -> tuple[Plan, list[str]]:
    """The plan less what comes after stops by precision, and what is said of them."""
    if sweep.precision is None:
        return plan, []
    from orchestrator.planning.build_plan import planned_cells
    from orchestrator.precision.stopping import filled
    from orchestrator.report.stopped import ahead, told

    found = plan.stopped(filled(plan, Path(sweep.output)).stops())
    lines = [*told(sweep.precision, planned_cells(found)), *ahead(sweep.precision, plan.cells, plan.sizes)]
    return found, lines


def _costs(sweep: Sweep, plan: Plan, cells: Sequence[dict[str, Any]]) -> list[str]:
    """What services will be asked, and what that costs, for what is neither stored nor reused."""
    from orchestrator.datasets.staging import nearby
    from orchestrator.inspection import service_cost

    pending = {row["cell"]: row["planned"] - row["done"] - row.get("reused", 0) for row in cells}
    found = service_cost.estimates(plan, pending, nearby(sweep), Path(sweep.output))
    return list(service_cost.lines(found, sweep.cluster.max_cost))


def _reused(sweep: Sweep, plan: Plan, cells: list[dict[str, Any]], folders: Sequence[tuple[str, Path]]) -> list[str]:
    """Put into each cell's row what these folders have of it; what is said of each folder."""
    if not folders:
        return []
    from orchestrator.datasets.staging import fixed
    from orchestrator.merging import reuse

    found = reuse.reusable(fixed(sweep), plan, Path(sweep.output), folders)
    counts = reuse.per_cell(found)
    for row in cells:
        row["reused"] = counts.get(row["cell"], 0)
    return [line for one in found for line in one.lines]


def sweep_of(
    path: Path, overrides: list[str], output: str | None, skip_bad: bool = False, more: Sequence[Path] = ()
) -> Sweep:
    """The sweep that the options name; raises SweepError."""
    from sweeps.load import load

    found = load(path, [*overrides, *(["skip_bad=true"] if skip_bad else [])], more)
    if output is not None and not output.strip():
        raise SweepError("--output is empty; name a folder, or leave it out for outputs/<name>")
    return found if output is None else found.model_copy(update={"output": output})


def _local(sweep: Sweep) -> Sweep:
    """The sweep over a copy that can be read, where its run folder is in a bucket."""
    if "://" not in sweep.output:
        return sweep
    from orchestrator.object_store import run_location as remote

    return sweep.model_copy(update={"output": str(remote.viewed(sweep.output, started=False))})
