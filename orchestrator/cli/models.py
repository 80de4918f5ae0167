"""``models``: check models before a sweep starts, and try them."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import WIDTH, AsJson, MovedData, Yes, split_sweep
from orchestrator.cli.printing import print_json, reading, text_table
from orchestrator.inspection import model_try, overflow
from orchestrator.inspection.model_check import GPUS
from orchestrator.inspection.model_check import check as check_models
from orchestrator.monitoring.console import show
from orchestrator.planning.build_plan import build_plan
from sweeps.load import load
from sweeps.own_model import find_models
from sweeps.spec import Sweep

WIDE = 160
"""Columns that the tables of tried models need."""
CHECK_WIDTH = 100
"""Columns of a terminal that the table of ``models check`` needs."""
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME|SWEEP...]", help="Models by name, folders of checkpoints, a sweep file."),
]
GpuType = Annotated[str, typer.Option(help="h200, h100, a100, l40s, a10 and others.")]
Engine = Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")]
Store = Annotated[Path, typer.Option(metavar="DIR", help="Where --prove stores certificates.")]
Prompt = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Only print the input of SCENARIO/ID, such as ROD/17, ROD/17/hint, ROD/17/hint/1 (turn 1) or ROD/17/hint-oeg.",
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


def check(names: Names = None, gpu_type: GpuType = "h200", as_json: AsJson = False) -> None:
    """Show what each model and judge accepts, its memory and license; exit code 1 if one cannot run.

    For named models and those of a sweep, also import the packages that their processors need.
    """
    if gpu_type not in GPUS:
        raise UserError(f"--gpu-type {gpu_type!r} is none of {', '.join(GPUS)}")
    models, file = split_sweep(names or [])
    specs, sweep = find_models(models, file, judging=True), load(file) if file else None
    rows = check_models(specs, gpu_type, packages=bool(names), sweep=sweep)
    notes = [] if sweep is None else _overflow_notes(sweep)
    if as_json:
        print_json({"models": [{"model": row.model, **row.cells, "ok": row.ok} for row in rows], "notes": notes})
    else:
        heads = ("model", "can play", "pictures", "memory", "license")
        lines = [*(line for row in rows for line in row.lines), *notes]
        show(text_table(heads, (row.summary for row in rows)), *map(printable, lines), min_width=CHECK_WIDTH)
    _exit(row.ok for row in rows)


def try_models(
    names: Names = None,
    data: MovedData = None,
    backend: Engine = "",
    output: Store = Path("outputs/models-try"),
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

        if as_json:
            raise UserError("--prompt prints a text; leave --json out")
        benchmark = data or Path("outputs/demo-data")
        print_prompt(prompt, models[0] if models else "", sweep, benchmark, judge, backend)
    elif flip_rate is not None:
        if len(models) != 1:
            raise UserError("--flip-rate takes one run folder: models try DIR --flip-rate 5")
        _replay_share(Path(models[0]), flip_rate, data, sweep, yes, as_json)
    elif prove:
        _prove(models, sweep, data, backend, output, as_json)
    else:
        _try(models, sweep, data, backend, as_json)


def _try(models: list[str], sweep: Path | None, data: Path | None, backend: str, as_json: bool) -> None:
    """Play a few samples on each model and print a row for it; a service is paid only if it is named."""
    from orchestrator.execution.trial import try_models as play_trials

    rows = play_trials(model_try.models(models, sweep, backend), sweep, data, _say)
    if as_json:
        print_json([{**row._asdict(), "ok": not row.wrong} for row in rows])
    else:
        heads = ("model", "cut short", "input", "wrong")
        show(text_table(heads, (row.cells for row in rows)), min_width=WIDE)
    _exit(not row.wrong for row in rows)


def _prove(models: list[str], sweep: Path | None, data: Path | None, backend: str, output: Path, as_json: bool) -> None:
    """Compare the input that each engine gets with the package's own, and store a certificate."""
    proofs = []
    for model in model_try.models(models, sweep, backend, services=True):
        proofs.append(model_try.prove_and_store(model, sweep, data, output))
        _say(f"{model.name}: {proofs[-1].verdict}")
    if as_json:
        print_json([proof._asdict() for proof in proofs])
    else:
        cells = ((proof.model, proof.engine, proof.verdict, proof.outcome) for proof in proofs)
        notes = (
            f"{proof.model} differs from its certificate in {proof.folder}: {'; '.join(proof.changed)}"
            for proof in proofs
            if proof.changed
        )
        show(text_table(("model", "engine", "verdict", "outcome"), cells), *map(printable, notes), min_width=WIDE)
    _exit(proof.ok for proof in proofs)


def _replay_share(folder: Path, share: float, data: Path | None, own: Path | None, yes: bool, as_json: bool) -> None:
    """Play a seeded share of a finished run again, which stays unchanged; repeats are stored in DIR/flip-rate."""
    from orchestrator.flip_rate import compare_repeats, play, prepare_repeats
    from orchestrator.planning.named_by_user import check_named
    from orchestrator.report.tables.flip_rates import rate_table
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.storage.disk import disk_errors

    repeats = prepare_repeats(folder, share, data)
    check_named(repeats.folder, repeats.sweep, repeats.players, load(own) if own else None)
    for text in repeats.lines():
        _say(text)
    if not yes and any(model.backend == "openai" for model in repeats.players):
        raise UserError("this would send paid requests to services; check the costs above and add --yes")
    outcome = play(repeats, _say)
    if not outcome.interrupted:
        with reading([repeats.folder]), disk_errors(repeats.folder):
            rates, notes = compare_repeats(repeats)
            if as_json:
                print_json({"share": share, "folder": str(repeats.output), "notes": notes, "rates": rates.to_dicts()})
            else:
                show(rich_table(rate_table(rates)), *map(printable, notes), min_width=WIDTH)
    raise typer.Exit(outcome.exit_code)


def _overflow_notes(sweep: Sweep) -> list[str]:
    """Return notes on episodes that may exceed the limits of their models, or a note that the data is missing."""
    if "://" not in sweep.data and not Path(sweep.data).is_dir():
        return [f"{sweep.data} is missing, so the episodes that may outgrow their models cannot be counted"]
    return overflow.lines(build_plan(sweep))


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def _exit(good: Iterable[bool]) -> None:
    raise typer.Exit(0 if all(good) else 1)
