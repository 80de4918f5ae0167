"""``models``: check models before a sweep starts, and try them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import AsJson, MovedData, Yes, split_sweep
from orchestrator.cli.printing import print_json, text_table
from orchestrator.cli.user_errors import Commands
from orchestrator.monitoring.console import show

models_app = typer.Typer(cls=Commands, help="The models: check and try them.", no_args_is_help=True)

WIDTH = 160
"""Columns that the tables of models need."""
CHECK_WIDTH = 100
"""Columns of a terminal that the table of ``models check`` needs."""
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME|SWEEP...]", help="Models by name, folders of checkpoints, a sweep file."),
]
Engine = Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")]
Prompt = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Only print the input of SCENARIO/ID, such as ROD/17, ROD/17/hint, ROD/17/hint/1 (turn 1) or ROD/17/hint-oeg; "
        "with --json its token ids.",
    ),
]
FlipRate = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=100,
        metavar="PERCENT",
        help="NAME is a run folder: play this share of it again, one and eight at once, and count changed answers.",
    ),
]


@models_app.command()
def check(
    names: Names = None,
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
        raise UserError(f"--gpu-type {gpu_type!r} is none of {', '.join(GPUS)}")
    models, sweep = split_sweep(names or [])
    specs = checkpoint_specs(models, sweep, judging=True)
    rows = check_models(specs, gpu_type, imports=bool(names), sweep=load(sweep) if sweep else None)
    notes = [] if sweep is None else _overflow_notes(sweep)
    if as_json:
        print_json({"models": [{**asdict(row), "ok": row.ok} for row in rows], "notes": notes})
    else:
        heads = ("model", "can play", "pictures", "memory", "license")
        lines = [*(line for row in rows for line in row.faults), *notes]
        show(text_table(heads, (row.summary for row in rows)), *map(printable, lines), min_width=CHECK_WIDTH)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


@models_app.command("try")
def try_models(
    names: Names = None,
    data: MovedData = None,
    backend: Engine = "",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where rates and certificates are stored.")] = Path(
        "outputs/models-try"
    ),
    prove: Annotated[bool, typer.Option("--prove", help="Only compare inputs, without loading weights.")] = False,
    prompt: Prompt = "",
    judge: Annotated[str, typer.Option(metavar="NAME", help="With --prompt: print this judge's input.")] = "",
    flip_rate: FlipRate = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Load each model, play two samples of each scenario and condition, and compare with the package's own call.

    With --prove: compare token ids and tensors of one request per cell without weights; exit code 1 if they differ.
    """
    models, sweep = split_sweep(names or [])
    if prompt:
        from orchestrator.cli.prompt import print_prompt

        benchmark = data or Path("outputs/demo-data")
        print_prompt(prompt, models[0] if models else "", sweep, benchmark, judge, backend, as_json)
    elif flip_rate is not None:
        from orchestrator.cli.flip_rate import replay_share

        if len(models) != 1:
            raise UserError("--flip-rate takes one run folder: models try DIR --flip-rate 5")
        replay_share(Path(models[0]), flip_rate, data, sweep, yes, as_json)
    elif prove:
        _prove(models, sweep, data, backend, output, as_json)
    else:
        _try(models, sweep, data, backend, output, as_json)


def _try(models: list[str], sweep: Path | None, data: Path | None, backend: str, output: Path, as_json: bool) -> None:
    """Play a few samples on each model and print a row for it."""
    from orchestrator.execution.cluster_models import try_models as play_trials
    from orchestrator.inspection.model_try import models as trial_models

    rows = []
    for row in play_trials(trial_models(models, sweep, backend), sweep, data, output):
        rows.append(row)
        print(printable(f"{row.model}: {row.wrong or 'ok'}"), file=sys.stderr)
    if as_json:
        print_json([row.table() for row in rows])
    else:
        heads = ("model", "load time, s", "GiB", "tokens/picture", "episodes/s", "cut short", "input", "wrong")
        show(text_table(heads, (row.cells for row in rows)), min_width=WIDTH)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


def _prove(models: list[str], sweep: Path | None, data: Path | None, backend: str, output: Path, as_json: bool) -> None:
    """Compare the input that each engine gets with the package's own, and store a certificate."""
    from orchestrator.inspection.model_try import models as trial_models
    from orchestrator.inspection.model_try import prove_and_store

    if not models and sweep is None:
        raise UserError("name models, checkpoint folders or a sweep to prove")
    proofs = []
    for model in trial_models(models, sweep, backend, services=True):
        proofs.append(prove_and_store(model, sweep, data, output))
        print(printable(f"{model.name}: {proofs[-1].verdict}"), file=sys.stderr, flush=True)
    if as_json:
        print_json([asdict(proof) for proof in proofs])
    else:
        cells = ((proof.model, proof.engine, proof.verdict, proof.outcome) for proof in proofs)
        notes = (printable(proof.change) for proof in proofs if proof.changed)
        show(text_table(("model", "engine", "verdict", "outcome"), cells), *notes, min_width=WIDTH)
    raise typer.Exit(0 if all(proof.ok for proof in proofs) else 1)


def _overflow_notes(path: Path) -> list[str]:
    """Return notes on episodes that may exceed the limits of their models, or a note that the data is missing."""
    from orchestrator.inspection import overflow
    from orchestrator.planning.build_plan import build_plan
    from sweeps.load import load

    sweep = load(path)
    if "://" not in sweep.data and not Path(sweep.data).is_dir():
        return [f"{sweep.data} is missing, so the episodes that may outgrow their models cannot be counted"]
    return overflow.lines(build_plan(sweep))
