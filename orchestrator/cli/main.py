"""The command line: run, plan, status, report and the other commands.

Each command is one call into another package; a user's mistake is one sentence and exit code 2.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.printable import printable
from envs import regular
from orchestrator.cli import listing
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.ctl import ctl
from orchestrator.cli.data import data_app, models_app
from orchestrator.cli.filter import filter as recomputed_filter
from orchestrator.cli.flip_rate import flip_rate
from orchestrator.cli.init import init
from orchestrator.cli.options import WIDTH, MovedData, RunFolder, named
from orchestrator.cli.plan import (
    More,
    Output,
    Overrides,
    Reuse,
    SkipBad,
    SweepFile,
    data_found,
    plan,
    reusable_of,
    sweep_of,
)
from orchestrator.cli.play import play
from orchestrator.cli.printing import precision_lines, print_left_out, print_mlflow, print_reused, print_tables
from orchestrator.cli.prompt import prompt
from orchestrator.cli.publish import publish
from orchestrator.cli.report import compare, leaderboard, report
from orchestrator.cli.runs import export, merge
from orchestrator.cli.sentences import Commands, its_exit_code
from orchestrator.cli.top import top
from orchestrator.cli.train import learned, train
from orchestrator.monitoring.console import show
from orchestrator.storage import job_paths
from orchestrator.storage.software import version

if TYPE_CHECKING:
    from sweeps.spec import Sweep

app = typer.Typer(
    cls=Commands,
    help="Runs ProactiveBench over many multimodal models: resumable, tracked, with intervals.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.add_typer(models_app, name="models")


def _version(asked: bool) -> None:
    if asked:
        print(f"proactive-sweep {version()}")
        raise typer.Exit


@app.callback()
def common(
    told: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Runs ProactiveBench over many multimodal models: resumable, tracked, with intervals."""


app.command()(init)
app.command("ls")(listing.list_names)
app.command()(plan)


@app.command()
def run(
    sweep: SweepFile,
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    skip_bad: SkipBad = False,
    more: More = [],  # noqa: B006
    update: Annotated[bool, typer.Option("--update", help="Go on in a folder of another configuration.")] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow: 'sqlite', an address (or in MLFLOW_TRACKING_URI), 'none'.")
    ] = None,
    retry: Annotated[
        str,
        typer.Option(
            metavar="ENDINGS", help="Play again what ended so: failed,overflow,truncated,unprocessable,refused."
        ),
    ] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="The same as --retry failed.")] = False,
    reuse: Reuse = [],  # noqa: B006
) -> None:
    """Play what is pending of the sweep; the same command continues an interrupted one."""
    from orchestrator.execution.retry_failed import endings
    from orchestrator.execution.run import run as play
    from orchestrator.object_store import run_location as remote

    again = endings(",".join([retry, *(["failed"] if retry_failed else [])]))
    found = _tracked(sweep_of(sweep, set_, output, skip_bad, more), tracking_uri)
    job_paths.reachable(found.data)
    data_found(found, sweep)
    others = reusable_of(reuse)
    with remote.place(found.output) as place:
        outcome = play(found, place.folder, update, retry=again, reuse=others)
    if not outcome.interrupted:
        print_tables(outcome.rows)
        _how_to_look(found, place.folder)
        if failed := int(outcome.rows["failed"].sum()):
            print(f"{failed:,} episodes ended as failed; the same command with --retry-failed plays them again")
    for group, reason in outcome.reasons.items():
        print(printable(f"{group}: {reason}"), file=sys.stderr)
    raise typer.Exit(place.code(outcome.code))


@app.command()
def status(folder: RunFolder, as_json: AsJson = False) -> None:
    """Show how far a run folder is, cell by cell and model by model; of a run that goes on also replicas, pace and ETA."""
    from rich.markup import escape
    from rich.table import Column, Table

    from orchestrator.monitoring.render import status_tables
    from orchestrator.storage import engine_cache
    from orchestrator.storage.run_folder import read_status

    found, precise = read_status(folder), precision_lines(folder)
    if as_json:
        from orchestrator.storage import reused

        more = {"precision": precise} if precise else {}
        show_json({**found, **more, "reused": reused.per_cell(folder), "cached": engine_cache.shares(folder)})
        return
    columns = ("cell", "state", "finished", "planned", "errors", "reason")
    table = Table(*columns[:-1], Column(columns[-1], overflow="fold"))
    for cell in found["cells"]:
        table.add_row(*(escape(str(cell[name])) for name in columns))
    left = "is damaged or was edited; the same `run` command writes it anew, or plays its episodes again"
    show(table, *status_tables(found), *(f"{name} {left}" for name in found["damaged"]), *precise)
    for line in engine_cache.sentences(folder):
        print(printable(line))
    print_left_out(found["left_out"])
    print_reused(folder)
    print_mlflow(folder)


app.command()(report)
app.command()(compare)


@app.command("judge")
def judge_answers(
    output: Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")],
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="A judge by name (default: the sweep's own).")] = "",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the \\[judge] table.")
    ] = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Also what it could not give a verdict on.")] = False,
) -> None:
    """Have the open-ended answers of a run read by a judge: what is pending, or everything by another one."""
    from orchestrator.execution.attempt import judge
    from orchestrator.object_store import run_location as remote
    from orchestrator.report.judge_agreement import reader
    from orchestrator.storage.run_folder import stored_sweep

    with remote.place(named(output)) as place:
        sweep = stored_sweep(place.folder)
        rows, complete = judge(sweep, place.folder, reader(sweep, by, set_), again)
    print_tables(rows.filter(rows["protocol"] == "oeg"))
    raise typer.Exit(place.code(0 if complete else 1))


@app.command()
def agreement(folder: RunFolder, as_json: AsJson = False) -> None:
    """Show how far the judges of a run agree: share equal and Cohen's kappa, answer by answer."""
    from orchestrator.report import judge_agreement as judging
    from orchestrator.storage.run_folder import stored_sweep

    stored_sweep(folder)
    rows = judging.agreement(folder)
    if as_json:
        show_json(rows.to_dicts())
        return
    few = "fewer than two judges have read answers of this run"
    show(listing.agreement(rows) if rows.height else few, least=WIDTH)


@app.command()
def track(
    folder: RunFolder,
    tracking_uri: Annotated[str | None, typer.Option(help="MLflow: 'sqlite' or an address.")] = None,
    data: MovedData = None,
) -> None:
    """Rebuild the MLflow run of a run folder, with tables, figures, the report and a sample of episodes as traces."""
    from orchestrator.tracking.tracker import track as rebuild

    rebuild(folder, tracking_uri, data)
    print_mlflow(folder)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="Lines of scenario, id and answers.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The benchmark folder.")],
) -> None:
    """Score recorded answers: JSON lines in, JSON lines out; no picture and no model needed."""
    from orchestrator.inspection.replay import ReplayError, as_json
    from orchestrator.inspection.replay import replay as score_lines

    try:
        with io.TextIOWrapper(regular.opened(file), encoding="utf-8", newline="\n") as lines:
            for line in score_lines(data, lines, str(file)):
                print(as_json(line, sys.stdout.encoding))
    except UnicodeDecodeError as problem:
        raise ReplayError(f"{file} is not UTF-8 text: {problem}") from None


@app.command()
def audit(
    folder: RunFolder,
    package: Annotated[Path | None, typer.Option(metavar="PATH", help="Folder that holds proactivebench/.")] = None,
    python: Annotated[str | None, typer.Option(help="An interpreter of Python 3.12 or newer.")] = None,
    data: MovedData = None,
    as_json: AsJson = False,
) -> None:
    """Replay all stored replies and verdicts through the package proactivebench and ours; exit code 1 if any differs."""
    from orchestrator.audit.audit import audit as examine

    found = examine(folder, package, python, data)
    if as_json:
        show_json({**asdict(found), "clean": found.clean})
    else:
        print(*map(printable, found.lines()), sep="\n")
    raise typer.Exit(0 if found.clean else 1)


for command in (
    ctl,
    top,
    merge,
    export,
    publish,
    leaderboard,
    recomputed_filter,
    flip_rate,
    prompt,
    play,
    train,
    learned,
):
    app.command()(command)


def main() -> None:
    """Entry point of the console script."""
    # seconds that Ray's processes may take to start on a busy machine, in place of 30; read when ray is imported
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a job's log shows a line when it is said, and what its encoding has not as an escape
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    with its_exit_code():
        app()


def _tracked(sweep: Sweep, uri: str | None) -> Sweep:
    """The sweep with its MLflow: the option's, else the file's; a file that names none takes MLFLOW_TRACKING_URI."""
    from sweeps.running import Tracking

    if uri is None and sweep.tracking.uri == Tracking().uri:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    return sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})}) if uri else sweep


def _how_to_look(sweep: Sweep, folder: Path) -> None:
    print(
        f"results: {sweep.output}/results.json; tables, figures and report.html: proactive-sweep report {sweep.output}"
    )
    print_mlflow(folder)
    if sweep.tracking.uri != "none":
        print(f"figures, tables and episodes in MLflow too: proactive-sweep track {folder}")
