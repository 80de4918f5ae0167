"""``models``: check models before a sweep starts, and try them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import error_text, printable, say
from envs.errors import UserError
from orchestrator.cli.options import AsJson, MovedData
from orchestrator.cli.printing import print_result, reading
from orchestrator.inspection import model_try, overflow
from orchestrator.inspection import prompt_preview as preview
from orchestrator.inspection.model_check import GPUS
from orchestrator.inspection.model_check import check as check_models
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.tables.table import text_table
from sweeps.checkpoint import source_fault
from sweeps.load import build_cell, load
from sweeps.own_model import find_models
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sweep_file import missing_data, shipped_sweeps

NAMED = "Models by name, folders of checkpoints, a sweep file."
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME|SWEEP...]", help=NAMED)]
GpuType = Annotated[str, typer.Option(help="h200, h100, a100, l40s, a10 and others.")]
Engine = Annotated[str, typer.Option(help="The engine for NAME: transformers or vllm.")]
Store = Annotated[Path, typer.Option(metavar="DIR", help="Where --prove stores certificates.")]
PROMPT = "Only print the input of ROD/17, ROD/17/hint, ROD/17/hint/1 (turn 1) or ROD/17/hint-oeg."
Prompt = Annotated[str, typer.Option(metavar="ADDRESS", help=PROMPT)]
A_SHARE = "NAME is a run folder: play this share of it again, one and eight at once, and count changed answers."
FlipRate = Annotated[float | None, typer.Option(min=0.01, max=100, metavar="PERCENT", help=A_SHARE)]


def check(names: Names = None, gpu_type: GpuType = "h200", as_json: AsJson = False) -> None:
    """Show what each model and judge accepts, its memory and license; exit code 1 if one cannot run.

    For named models and those of a sweep, also import the packages that their processors need.
    """
    if gpu_type not in GPUS:
        raise UserError(f"--gpu-type {gpu_type!r} is none of {', '.join(GPUS)}")
    models, file = _split_sweep(names or [])
    specs, sweep = find_models(models, file, judging=True), load(file) if file else None
    rows, notes = check_models(specs, gpu_type, packages=bool(names), sweep=sweep), list[str]()
    if file and sweep:
        why = missing_data(sweep.data, file)
        notes = [why] if why else overflow.lines(build_plan(sweep))
    document = {"models": [{"model": row.model, **row.cells, "ok": row.ok} for row in rows], "notes": notes}
    table = text_table(("model", "can play", "pictures", "memory", "license"), (row.summary for row in rows))
    print_result(as_json, document, table, *(line for row in rows for line in row.lines), *notes)
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
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first, as in a script.")] = False,
    as_json: AsJson = False,
) -> None:
    """Load each model, play two samples of each scenario and condition, and compare with the package's own call.

    With --prove: compare token ids and tensors of one request per cell without weights; exit code 1 if they differ.
    """
    models, sweep = _split_sweep(names or [])
    if prompt and as_json:
        raise UserError("--prompt prints a text; leave --json out")
    if prompt:
        benchmark = data or Path("outputs/demo-data")
        print(printable(_describe_input(prompt, models[0] if models else "", sweep, benchmark, judge, backend)))
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

    rows = play_trials(model_try.models(models, sweep, backend), sweep, data, say)
    heads = ("model", "cut short", "input", "wrong")
    document = [{**row._asdict(), "ok": not row.wrong} for row in rows]
    print_result(as_json, document, text_table(heads, (row.cells for row in rows)))
    _exit(not row.wrong for row in rows)


def _prove(models: list[str], sweep: Path | None, data: Path | None, backend: str, output: Path, as_json: bool) -> None:
    """Compare the input that each engine gets with the package's own, and store a certificate."""
    proofs = []
    for model in model_try.models(models, sweep, backend, services=True):
        proofs.append(model_try.prove_and_store(model, sweep, data, output))
        say(f"{model.name}: {proofs[-1].verdict}")
    cells = ((proof.model, proof.engine, proof.verdict, proof.outcome) for proof in proofs)
    table = text_table(("model", "engine", "verdict", "outcome"), cells)
    changed = {f"{proof.model} differs from its certificate in {proof.folder}": proof.changed for proof in proofs}
    notes = (f"{subject}: {'; '.join(parts)}" for subject, parts in changed.items() if parts)
    print_result(as_json, [proof._asdict() for proof in proofs], table, *notes)
    _exit(proof.ok for proof in proofs)


def _replay_share(folder: Path, share: float, data: Path | None, own: Path | None, yes: bool, as_json: bool) -> None:
    """Play a seeded share of a finished run again, which stays unchanged; repeats are stored in DIR/flip-rate."""
    from orchestrator.flip_rate import compare_repeats, play, prepare_repeats, rate_table
    from orchestrator.planning.named_by_user import check_named
    from orchestrator.storage.disk import disk_errors

    repeats = prepare_repeats(folder, share, data)
    check_named(repeats.folder, repeats.sweep, repeats.players, load(own) if own else None)
    for text in repeats.lines():
        say(text)
    if not yes and any(model.backend == "openai" for model in repeats.players):
        raise UserError("this would send paid requests to services; check the costs above and add --yes")
    outcome = play(repeats, say)
    if not outcome.interrupted:
        with reading([repeats.folder]), disk_errors(repeats.folder):
            rates, notes = compare_repeats(repeats)
            document = {"share": share, "folder": str(repeats.output), "notes": notes, "rates": rates.to_dicts()}
            print_result(as_json, document, rate_table(rates), *notes)
    raise typer.Exit(outcome.exit_code)


def _describe_input(address: str, model: str, sweep: Path | None, data: Path, judge: str, backend: str) -> str:
    """Return the exact input of a model or judge at an address, with file names in place of pictures."""
    scenario, number, condition, protocol, turn = parse_address(address)
    entry = find_models([model], sweep, backend)[0] if model else None
    cell = build_cell(scenario, condition, entry, protocol, sweep)
    judge_spec = preview.find_judge(judge, protocol, turn)
    sample, pool = preview.find_sample(data, cell.scenario, number)
    try:
        request = preview.find_request(sample, pool, cell, turn, judge_spec)
    except ValueError as reason:
        raise UserError(str(reason)) from None
    reader = judge_spec.model if judge_spec else cell.model
    if model or judge_spec:
        try:
            text = preview.apply_chat_template(reader, request)
        except Exception as problem:  # transformers may raise anything on a damaged checkpoint
            raise UserError(f"the chat template of {reader.name} cannot be rendered: {error_text(problem)}") from None
        if text is not None:
            return text
        if reader.backend != "builtin":
            why = source_fault(reader) or f"no chat template of {reader.name} can be read here"
            say(f"{why}: showing the conversation without it")
    return preview.format_messages(preview.shown_messages(request))


def parse_address(address: str) -> tuple[str, int, str, Protocol, int]:
    """Return scenario, sample, condition, protocol and turn of ``ROD/17/hint-oeg/0``; raises UserError."""
    parts = re.fullmatch(rf"([^/]*)/(\d{{1,15}})(?:/([^/]*?)(?:-({'|'.join(Protocol)}))?)?(?:/(\d{{0,15}}))?", address)
    if parts is None:
        raise UserError(f"--prompt {printable(address)} is not SCENARIO/ID[/CONDITION[/TURN]], such as ROD/17/hint/1")
    scenario, sample, condition, protocol, turn = parts.groups()
    return scenario, int(sample), condition or ZERO_SHOT, Protocol(protocol or Protocol.MCQA), int(turn or 0)


def _split_sweep(names: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the names of models, and the sweep file among them if there is one; raises UserError for two."""
    sweeps = [name for name in names if name.endswith(".toml") or Path(name).is_file() or name in shipped_sweeps()]
    if len(sweeps) > 1:
        raise UserError(f"name one sweep, not {sweeps[0]} and {sweeps[1]}")
    return [name for name in names if name not in sweeps], Path(sweeps[0]) if sweeps else None


def _exit(good: Iterable[bool]) -> None:
    raise typer.Exit(0 if all(good) else 1)
