"""``report --filter``: which samples the paper's filter keeps, recomputed from a run over all of them."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import typer

from orchestrator.cli.options import WIDTH
from orchestrator.cli.printing import print_json, print_lines, text_table
from orchestrator.monitoring.console import show
from orchestrator.report.measures import first_turn_filter as first_turn
from orchestrator.report.read_run import read_run
from orchestrator.storage.disk import disk_errors

LISTED = 5
"""Most undecided samples that are listed by id."""
COLUMNS = {
    "samples": "samples", "kept": "kept", "gone": "dropped", "undecided": "undecided", "published": "kept by paper",
    "shared": "kept by both",
}  # fmt: skip
"""Column -> its heading."""


def show_filter(folder: Path, percent: int, output: Path | None, as_json: bool) -> None:
    """Print how many samples are kept, and write their ids into a file; exits with 1 if some are undecided."""
    run_data = read_run(folder)
    turns = first_turn.first_turns(run_data)
    rows = first_turn.threshold_counts(turns, percent)
    decisions = turns.decide(percent)
    undecided = decisions.filter(decisions["kept"].is_null())
    if output is not None:
        with disk_errors(output):
            first_turn.write_ids(turns, percent, output)
    notes = [*run_data.notes, *_notes(turns, undecided, percent, output)]
    if as_json:
        figures = {"models": turns.models, "percent": percent, "scenarios": rows.to_dicts()}
        print_json({**figures, "undecided": undecided.to_dicts(), "notes": notes})
    else:
        counts = (
            ["-" if count is None else f"{count:,}" for count in row] for row in rows.select(*COLUMNS).iter_rows()
        )
        texts = ([name, *row] for name, row in zip(rows["scenario"], counts, strict=True))
        title = f"dropped: samples that {percent}% of the {len(turns.models)} models get right at the first turn"
        show(text_table(("scenario", *COLUMNS.values()), texts, title, len(COLUMNS)), min_width=WIDTH)
        print_lines(notes)
    raise typer.Exit(1 if undecided.height else 0)


def _notes(turns: first_turn.FirstTurns, undecided: pl.DataFrame, percent: int, output: Path | None) -> Iterator[str]:
    """Yield the notes below the table, one sentence each."""
    yield f"models: {', '.join(turns.models)}, at the first turn of zero-shot"
    if undecided.height:
        ids = [f"{row['scenario']}/{row['sample_id']:04d}" for row in undecided.head(LISTED).iter_rows(named=True)]
        more = f" and {undecided.height - LISTED:,} more" if undecided.height > LISTED else ""
        yield f"{undecided.height:,} samples stay undecided until these answers exist: {', '.join(ids)}{more}"
    if output is not None:
        count = sum(map(len, turns.ids(percent).values()))
        yield f"{output} holds the {count:,} kept ids; play only them with --set {shlex.quote(f'selection.ids_file={output}')}"
