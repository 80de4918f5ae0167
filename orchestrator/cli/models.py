"""``models``: check, fetch, pin and try models before a sweep starts, and measure how stable their replies are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from orchestrator.cli.flip_rate import flip_rate
from orchestrator.cli.options import AsJson
from orchestrator.cli.printing import print_json, text_table
from orchestrator.monitoring.console import show
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    from sweeps.spec import ModelSpec

models_app = typer.Typer(
    help="The models: check, fetch, prove and try them before a sweep; flip-rate after it.", no_args_is_help=True
)

WIDTH = 160
"""Columns that the tables of models need."""
ModelNames = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME...]", help="Models by name, or folders of checkpoints.")
]
PlayedSweep = Annotated[Path | None, typer.Option(metavar="SWEEP", help="The models and conditions of this sweep.")]
Benchmark = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder.")]
Engine = Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")]
CHECK_COLUMNS = (
    "model", "source", "architecture", "pictures", "chat template", "decoding", "memory", "packages", "license",
)  # fmt: skip
"""Heads of the table of ``models check``."""


@models_app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Models by name, or folders of checkpoints; default: all that ship."),
    ] = None,
    sweep: Annotated[Path | None, typer.Option(metavar="SWEEP", help="The models of this sweep file.")] = None,
    backend: Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")] = "",
    gpu_type: Annotated[str, typer.Option(help="h200, h100, a100, l40s, a10 and others.")] = "h200",
    as_json: AsJson = False,
) -> None:
    """Show what each model and judge accepts, its memory and license; exit code 1 if one cannot run.

    For named models and those of a sweep, also import the packages that their processors need.
    """
    from orchestrator.inspection.checkpoint_entry import checkpoint_specs
    from orchestrator.inspection.model_check import GPUS
    from orchestrator.inspection.model_check import check as check_models
    from sweeps.load import load

    if gpu_type not in GPUS:
        raise SweepError(f"--gpu-type {gpu_type!r} is none of {', '.join(GPUS)}")
    models = checkpoint_specs(names or [], sweep, backend, judging=True)
    rows = check_models(models, gpu_type, imports=bool(names or sweep), sweep=load(sweep) if sweep else None)
    notes = [] if sweep is None else _overflow_notes(sweep)
    if as_json:
        print_json({"models": [{**asdict(row), "ok": row.ok} for row in rows], "notes": notes})
    else:
        show(text_table(CHECK_COLUMNS, (row.cells for row in rows)), *map(printable, notes), min_width=WIDTH)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


@models_app.command()
def fetch(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Default: all of the sweep.")] = None,
    sweep: Annotated[Path | None, typer.Option(metavar="SWEEP", help="The models and the judge of this file.")] = None,
) -> None:
    """Download model weights to this machine, or to every node of the Ray cluster at RAY_ADDRESS; rerun to resume.

    Exit code 1 if some weights are missing.
    """
    from sweeps.load import find_models

    if not names and sweep is None:
        raise SweepError("name the models to fetch, or a sweep: models fetch --sweep FILE")
    missing = _download(find_models(names or [], sweep, judging=True), lambda line: print(printable(line), flush=True))
    raise typer.Exit(1 if missing else 0)


@models_app.command("try")
def try_models(
    names: ModelNames = None,
    sweep: PlayedSweep = None,
    data: Benchmark = None,
    backend: Engine = "",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where measured rates go, for `plan --gpus`.")] = Path(
        "outputs/models-try"
    ),
    as_json: AsJson = False,
) -> None:
    """Load each model, play two samples of each scenario and condition, and compare with the package's own call."""
    from orchestrator.execution.cluster_models import try_models
    from orchestrator.inspection.model_try import models

    rows = []
    for row in try_models(models(names or [], sweep, backend), sweep, data, output):
        rows.append(row)
        print(printable(f"{row.model}: {row.wrong or 'ok'}"), file=sys.stderr)
    if as_json:
        print_json([row.table() for row in rows])
    else:
        heads = ("model", "load time, s", "GiB", "tokens/picture", "episodes/s", "cut short", "equal", "wrong")
        notes = (printable(f"{row.model}: {row.bound}") for row in rows if row.bound)
        show(text_table(heads, (row.cells for row in rows)), *notes, min_width=WIDTH)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


@models_app.command()
def prove(
    names: ModelNames = None,
    sweep: PlayedSweep = None,
    data: Benchmark = None,
    backend: Engine = "",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where certificates are stored, per engine.")] = Path(
        "outputs/models-prove"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare token ids and every tensor of one request per cell with the package's own call, without weights.

    Exit code 1 if they differ from the package's call, or from a certificate that is stored already.
    """
    from orchestrator.inspection.model_try import models, prove_and_store

    if not names and sweep is None:
        raise SweepError("name models or checkpoint folders to prove, or add --sweep FILE")
    proofs = []
    for model in models(names or [], sweep, backend, services=True):
        proofs.append(prove_and_store(model, sweep, data, output))
        print(printable(f"{model.name}: {proofs[-1].verdict}"), file=sys.stderr, flush=True)
    if as_json:
        print_json([asdict(proof) for proof in proofs])
    else:
        heads = ("model", "engine", "verdict", "outcome")
        cells = ((proof.model, proof.engine, proof.verdict, proof.outcome) for proof in proofs)
        notes = (printable(proof.change) for proof in proofs if proof.changed)
        show(text_table(heads, cells), *notes, min_width=WIDTH)
    raise typer.Exit(0 if all(proof.ok for proof in proofs) else 1)


def _download(models: Sequence[ModelSpec], say: Callable[[str], None]) -> list[str]:
    """Download weights and return the names of the models that still lack some."""
    from orchestrator.execution.ray_access import cluster_address

    if cluster_address():
        from orchestrator.execution.cluster_models import fetch_on_cluster  # Ray takes a second to import

        return fetch_on_cluster(models, say)
    from orchestrator.datasets.weights import fetch_all

    return fetch_all(models, say)


def _overflow_notes(path: Path) -> list[str]:
    """Return notes on episodes that may exceed the limits of their models, or a note that the data is missing."""
    from orchestrator.datasets.staging import data_folder
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan
    from sweeps.load import load

    sweep = load(path)
    if "://" not in sweep.data and not Path(sweep.data).is_dir():
        return [f"{sweep.data} is missing, so the episodes that may outgrow their models cannot be counted"]
    return overflow.lines(overflow.risks(build_plan(sweep), data_folder(sweep)))


models_app.command("flip-rate")(flip_rate)
