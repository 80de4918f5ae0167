"""The command line: run, plan, status, report and the other commands.

Each command is one call into another package; a user's mistake is one sentence and exit code 2.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.printable import printable
from envs import regular
from envs.samples import BadData
from orchestrator.cli import listing
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.data import data_app, models_app
from orchestrator.cli.init import init
from orchestrator.cli.options import WIDTH, ByJudge, RunFolder, RunFolders, StrictPaper, named
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
from orchestrator.cli.prompt import prompt
from orchestrator.cli.publish import publish
from orchestrator.cli.runs import compare_runs, export, leaderboard, merge, report_runs
from orchestrator.cli.sentences import Commands
from orchestrator.cli.train import learned, train
from orchestrator.monitoring.console import show
from orchestrator.storage import job_paths
from orchestrator.storage.software import version

if TYPE_CHECKING:
    import polars as pl

    from orchestrator.report.escaping import Grid
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
    from orchestrator.execution.attempt import run as play
    from orchestrator.execution.retry_failed import endings
    from orchestrator.object_store import run_location as remote

    again = endings(",".join([retry, *(["failed"] if retry_failed else [])]))
    found = _tracked(sweep_of(sweep, set_, output, skip_bad, more), tracking_uri)
    job_paths.reachable(found.data)
    data_found(found, sweep)
    others = reusable_of(reuse)
    with remote.place(found.output) as place:
        outcome = play(found, place.folder, update, retry=again, reuse=others)
    if not outcome.interrupted:
        _print_tables(outcome.rows)
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
    from orchestrator.storage.run_folder import read_status

    found = read_status(folder)
    if as_json:
        from orchestrator.storage import reused

        show_json({**found, "reused": reused.per_cell(folder)})
        return
    table = Table("cell", "state", "finished", "planned", "errors", Column("reason", overflow="fold"))
    for cell in found["cells"]:
        table.add_row(
            *(escape(str(cell[name])) for name in ("cell", "state", "finished", "planned", "errors", "reason"))
        )
    left = "is damaged or was edited; the same `run` command writes it anew, or plays its episodes again"
    show(table, *status_tables(found), *(f"{name} {left}" for name in found["damaged"]))
    _print_left_out(found["left_out"])
    _print_reused(folder)
    _print_mlflow(folder)


@app.command()
def report(
    folders: RunFolders,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder, if it has moved.")
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Draw baselines grey in figures, or leave them out.")
    ] = True,
    cluster: Annotated[
        str, typer.Option(metavar="object|picture", help="Count samples of one object, or picture or video, as alike.")
    ] = "",
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="Of several runs: the page.")] = Path(
        "runs.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Print the paper's tables, and write tables/, figures/ and report.html from the run folder alone.

    Of several runs, print what each differs by from the first, and write one page: ranks over all of them, and differences.
    --brief and --json write nothing.
    """
    if len(folders) > 1 and as_json:
        compare_runs(folders, _benchmark(data), judge, strict_paper, cluster, None, as_json)
        return
    if len(folders) > 1:
        report_runs(folders, _benchmark(data), judge, strict_paper, cluster, None if brief else into)
        return
    (folder,) = folders
    from orchestrator.report.evidence_tables import paired
    from orchestrator.report.run_data import read
    from orchestrator.report.tables import write_tables

    found = read(folder, _benchmark(data), judge, strict_paper, cluster)
    if as_json:
        show_json({"cells": found.rows.to_dicts(), "notes": found.notes})
        return
    _print_tables(found.rows)
    _print_paired(paired(found))
    _print_left_out(found.left_out)
    _print_reused(folder)
    if brief:
        return
    from orchestrator.report.figures import write_figures
    from orchestrator.report.html import write_page
    from orchestrator.report.outcomes import told
    from orchestrator.storage.disk import disk

    with disk(folder):
        made = [*write_tables(found), *write_figures(found, baselines=baselines)]
        page = write_page(found, data, baselines=baselines)
    print(f"intervals: {told(found)}")
    print(f"{len(made)} files in {folder}/tables and {folder}/figures; open {page} in a browser")


@app.command()
def compare(
    folders: RunFolders,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder, if it has moved.")
    ] = None,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Annotated[
        str, typer.Option(metavar="object|picture", help="Of several runs: count samples of one object as alike.")
    ] = "",
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Of several runs: write every cell there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Of one run: our figures beside the published ones. Of several: each less the first, on the same samples."""
    if len(folders) > 1:
        compare_runs(folders, _benchmark(data), judge, strict_paper, cluster, csv, as_json)
        return
    from orchestrator.report import paper_comparison as beside

    rows = beside.compare(folders[0], _benchmark(data), judge, strict_paper)
    if as_json:
        show_json({"figures": rows.to_dicts(), "notes": beside.reasons(rows)})
        return
    show(*beside.tables(rows), *beside.reasons(rows), least=WIDTH)


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
    _print_tables(rows.filter(rows["protocol"] == "oeg"))
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
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder, if it has moved.")
    ] = None,
) -> None:
    """Rebuild the MLflow run of a run folder, with tables, figures, the report and a sample of episodes as traces."""
    from orchestrator.tracking.tracker import track as rebuild

    rebuild(folder, tracking_uri, _benchmark(data))
    _print_mlflow(folder)


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
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where the benchmark lies now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay all stored replies and verdicts through the package proactivebench and ours; exit code 1 if any differs."""
    from orchestrator.audit.audit import audit as examine

    found = examine(folder, package, python, _benchmark(data))
    if as_json:
        show_json({**asdict(found), "clean": found.clean})
    else:
        print(*map(printable, found.lines()), sep="\n")
    raise typer.Exit(0 if found.clean else 1)


for command in (merge, export, publish, leaderboard, prompt, play, train, learned):
    app.command()(command)


def main() -> None:
    """Entry point of the console script."""
    # seconds that Ray's processes may take to start on a busy machine, in place of 30; read when ray is imported
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a job's log shows a line when it is said, and what its encoding has not as an escape
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    app()


def _tracked(sweep: Sweep, uri: str | None) -> Sweep:
    """The sweep with its MLflow: the option's, else the file's; a file that names none takes MLFLOW_TRACKING_URI."""
    from sweeps.running import Tracking

    if uri is None and sweep.tracking.uri == Tracking().uri:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    return sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})}) if uri else sweep


def _benchmark(data: Path | None) -> Path | None:
    """The folder that ``--data`` names, if it is one."""
    if data is not None and not data.is_dir():
        raise BadData(f"--data {data} is no folder; name the one that holds the *_preprocessed.jsonl files")
    return data


def _print_tables(rows: pl.DataFrame) -> None:
    from orchestrator.report.console_tables import tables

    show(*tables(rows), least=WIDTH)


def _print_left_out(left_out: Iterable[object]) -> None:
    """The bad lines of the data that nobody played, one line a scenario."""
    for one in left_out:
        print(printable(f"left out: {one}"))


def _print_reused(folder: Path) -> None:
    """How many episodes were played in which other folder."""
    from orchestrator.storage import reused

    for sentence in reused.sentences(folder):
        print(printable(sentence))


def _print_paired(grid: Grid) -> None:
    from orchestrator.report.console_tables import paired

    if grid.rows:
        show(paired(grid), least=WIDTH)


def _how_to_look(sweep: Sweep, folder: Path) -> None:
    print(
        f"results: {sweep.output}/results.json; tables, figures and report.html: proactive-sweep report {sweep.output}"
    )
    _print_mlflow(folder)
    if sweep.tracking.uri != "none":
        print(f"figures, tables and episodes in MLflow too: proactive-sweep track {folder}")


def _print_mlflow(folder: Path) -> None:
    """Where a browser shows the table of models; nothing where MLflow has not heard of the run."""
    from orchestrator.tracking.remembered import pages

    for line in pages(folder):
        print(printable(f"MLflow: {line}"))
