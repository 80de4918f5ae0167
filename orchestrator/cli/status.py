"""``status``: the progress of a run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.cli.options import AsJson, RunFolder
from orchestrator.cli.printing import print_json, print_lines, print_mlflow, print_sources, reads_folders, text_table
from orchestrator.monitoring.console import show
from orchestrator.monitoring.render import status_tables
from orchestrator.storage import reused
from orchestrator.storage.run_folder import planned_cells, planned_episodes, stored_sweep
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import judge_counts

COLUMNS = ("cell", "state", "finished", "planned", "errors", "reason")
LISTED = 10
"""Most cells with a reason that the summary lists."""
Cells = Annotated[bool, typer.Option("--cells", help="List every cell.")]


@reads_folders
def status(folder: RunFolder, cells: Cells = False, as_json: AsJson = False) -> None:
    """Show the progress of a run by model and, with --cells, by cell; while it runs, also replicas, rates and ETA."""
    progress, precision = read_status(folder), _describe_stops(folder)
    judges = judge_counts(folder, planned_episodes(folder))
    if as_json:
        counts_by_judge = {judge: counts._asdict() for judge, counts in judges.items()}
        more = {"precision": precision} if precision else {}
        print_json({**progress, **more, "reused": reused.reused_per_cell(folder), "judges": counts_by_judge})
        return
    if cells:
        show(text_table(COLUMNS, ([str(cell[name]) for name in COLUMNS] for cell in progress["cells"])))
    show(*status_tables(progress), *([] if cells else _summarize_cells(progress["cells"])), *precision)
    print_lines((counts.sentence(judge) for judge, counts in judges.items()), "judge ")
    if (folder / "gold").exists():
        from orchestrator.gold.gold_check import gold_notes  # it computes, for which numpy is imported

        print_lines(gold_notes(folder))
    print_sources(folder, progress["left_out"])
    print_mlflow(folder)


def _describe_stops(folder: Path) -> list[str]:
    """Return the rule by which cells of a run stop and the episodes saved; empty without a rule."""
    try:
        if (rule := stored_sweep(folder).precision) is None:
            return []
        from orchestrator.report.scores.precision_stops import describe_savings

        return describe_savings(rule, planned_cells(folder))
    except RunFolderError:
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
