"""``status``, ``view``, ``ctl``: the progress of a run, its episodes in a browser, and commands to it while it runs."""

import asyncio
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from envs.errors import RunFolderError, UserError
from envs.plural import pluralize
from orchestrator.cli import printing
from orchestrator.cli.options import AsJson, MovedData, RunFolder, RunFolders, RunName, required_name
from orchestrator.cli.user_errors import removed_sentence
from orchestrator.monitoring.render import status_tables
from orchestrator.report.tables.formats import show
from orchestrator.report.tables.table import text_table
from orchestrator.storage import control_log, lock, reused, run_folder, safe_write
from orchestrator.storage.run_folder import planned_cells, planned_episodes, stored_sweep
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import judge_counts
from sweeps.packages import missing_rules

COLUMNS = ("cell", "state", "finished", "planned", "errors", "reason")
LISTED = 10
"""Most cells with a reason that the summary lists."""
Cells = Annotated[bool, typer.Option("--cells", help="List every cell.")]
WAIT_S, POLL_INTERVAL_S = 15.0, 0.5
"""Seconds that the driver has to take a command, and between two looks for its answer."""
VERBS = "pause, resume, cancel, restore, drain, undrain; none: list the commands sent so far."
Verb = Annotated[str, typer.Argument(metavar="VERB", help=VERBS)]
TARGETS = "all, judge; MODEL, or MODEL/SCENARIO/CONDITION with * in parts; a node."
Target = Annotated[str, typer.Argument(metavar="TARGET", help=TARGETS)]


@printing.reads_folders
def status(folder: RunFolder, cells: Cells = False, as_json: AsJson = False) -> None:
    """Show the progress of a run by model and, with --cells, by cell; while it runs, also replicas, rates and ETA."""
    progress, precision = read_status(folder), _describe_stops(folder)
    judges = judge_counts(folder, planned_episodes(folder))
    if as_json:
        counts_by_judge = {judge: counts._asdict() for judge, counts in judges.items()}
        more = {"precision": precision} if precision else {}
        printing.print_json({**progress, **more, "reused": reused.reused_per_cell(folder), "judges": counts_by_judge})
        return
    if cells:
        show(text_table(COLUMNS, ([cell[name] for name in COLUMNS] for cell in progress["cells"])))
    show(*status_tables(progress), *([] if cells else _summarize_cells(progress["cells"])), *precision)
    printing.print_lines((counts.sentence(judge) for judge, counts in judges.items()), "judge ")
    if (folder / "gold").exists():
        from orchestrator.gold.gold_check import gold_notes  # it computes, for which numpy is imported

        printing.print_lines(gold_notes(folder))
    printing.print_sources(folder, progress["left_out"])
    printing.print_mlflow(folder)
    with suppress(RunFolderError):
        printing.print_lines(missing_rules(stored_sweep(folder).conditions))


def _describe_stops(folder: Path) -> list[str]:
    """Return the rule by which cells of a run stop and the episodes saved; empty without a rule."""
    with suppress(RunFolderError):
        if rule := stored_sweep(folder).precision:
            return [rule.describe_savings(planned_cells(folder))]
    return []


def _summarize_cells(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line with the number of cells in each state, and a line for each of the first cells whose state has a reason."""
    counts = Counter(str(cell["state"]) for cell in cells)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    yield f"{pluralize(len(cells), 'cell')}: {states} (--cells lists them)"
    explained = [f"{cell['cell']}: {cell['state']}, {cell['reason']}" for cell in cells if cell["reason"]]
    yield from explained[:LISTED]
    if len(explained) > LISTED:
        yield f"and {pluralize(len(explained) - LISTED, 'more cell')} with a reason (--cells lists them)"


def view(
    folders: RunFolders,
    data: MovedData = None,
    output: Annotated[Path | None, typer.Option(metavar="OUT", help="Write all as static files, and end.")] = None,
    no_pictures: Annotated[bool, typer.Option("--no-pictures", help="Leave the pictures out of --output.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
) -> None:
    """Show every episode of run folders in a browser: filters, film strips, side by side; live while a run writes.

    The page is served on loopback only. Stop with Ctrl-C.
    """
    from orchestrator.view.loopback import serve_until_stopped
    from orchestrator.view.page import ViewPage

    runs = run_folder.name_runs(folders)
    for folder in folders:
        stored_sweep(folder)
    if output is not None:
        with printing.reading(folders):
            _write_bundle(runs, data, output, not no_pictures)
    else:
        asyncio.run(serve_until_stopped(ViewPage(runs, data), port))


def _write_bundle(runs: dict[str, Path], data: Path | None, target: Path, with_pictures: bool) -> None:
    from orchestrator.view.bundle import write_bundle

    for state in write_bundle(runs, data, target, with_pictures):
        print(f"{state.episodes:,} episodes, {state.pictures:,} pictures ...", file=sys.stderr)
    size = f"{state.bytes / 1e6:,.1f} MB"
    lines = [f"{state.episodes:,} episodes and {state.pictures:,} pictures in {target} ({size})"]
    lines.append(f"to look at it: python -m http.server --directory {shlex.quote(str(target))} --bind 127.0.0.1")
    lines += ["before you publish it, see docs/data-sources.md for the licenses of the pictures"] * bool(state.pictures)
    printing.print_lines(lines)


def ctl(output: RunName, verb: Verb = "", target: Target = "", as_json: AsJson = False) -> None:
    """Pause or cancel models and cells of a running sweep, or empty a node."""
    if "://" in required_name(output):
        raise UserError(f"{output} is a bucket; ctl needs a run folder on a disk (0.2.0 was the last to steer buckets)")
    folder = Path(output)
    safe_write.refuse_links(folder)
    if not (folder / run_folder.RESOLVED).exists():
        raise run_folder.missing_run(folder)
    if verb:
        _send(folder, verb, target)
        return
    entries = control_log.read_history(folder)
    lines = [f"{entry.taken} {entry.sentence}" for entry in entries]
    if waiting := control_log.waiting_commands(folder):
        lines.append(f"{pluralize(len(waiting), 'command')} waiting for the next `run`")
    document = [entry.model_dump(mode="json") for entry in entries]
    printing.print_result(as_json, document, *(lines or ["no command was sent to this run"]))


def _send(folder: Path, verb: str, target: str) -> None:
    if gone := removed_sentence(f"ctl {verb}"):
        raise UserError(gone)
    command, running = control_log.parse_command(verb, target), lock.holder(folder) is not None
    if verb == "drain" and not running:
        raise UserError(f"{folder} is not running, so it has no nodes to drain")
    name = control_log.send_command(folder, command)
    if not running:
        printing.print_lines([f"{folder} is not running; the next `run` takes the command"])
        return
    deadline = time.monotonic() + WAIT_S
    while not (entries := [entry for entry in control_log.read_history(folder) if entry.name == name]):
        if time.monotonic() >= deadline:
            printing.print_lines([f"the command waits in {folder}; the driver did not take it within {WAIT_S:g} s"])
            raise typer.Exit(1)
        time.sleep(POLL_INTERVAL_S)
    if entries[0].refused:
        raise UserError(f"{verb} is refused: {entries[0].effect}")
    printing.print_lines([entries[0].effect])
