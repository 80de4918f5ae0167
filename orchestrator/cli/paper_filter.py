"""``report --filter``: which samples the paper's filter keeps, recomputed from a run over all of them."""

import shlex
from pathlib import Path

import typer

from actors.text.printable import list_first
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
    models, samples = first_turn.filter_samples(run_data, percent)
    rows, undecided = first_turn.count_samples(samples), samples.filter(samples["kept"].is_null())
    notes = [*run_data.notes, f"models: {', '.join(models)}, at the first turn of zero-shot"]
    if undecided.height:
        ids = [f"{scenario}/{number:04d}" for scenario, number in undecided.select("scenario", "sample_id").iter_rows()]
        notes.append(
            f"{undecided.height:,} samples stay undecided until these answers exist: {list_first(ids, LISTED)}"
        )
    if output is not None:
        with disk_errors(output):
            first_turn.write_ids(samples, output)
        remedy = f"play only them with --set {shlex.quote(f'selection.ids_file={output}')}"
        notes.append(f"{output} holds the {int(samples['kept'].sum()):,} kept ids; {remedy}")
    if as_json:
        figures = {"models": models, "percent": percent, "scenarios": rows.to_dicts()}
        print_json({**figures, "undecided": undecided.to_dicts(), "notes": notes})
    else:
        texts = ([name, *map(format_count, counts)] for name, *counts in rows.select("scenario", *COLUMNS).iter_rows())
        title = f"dropped: samples that {percent}% of the {len(models)} models get right at the first turn"
        show(text_table(("scenario", *COLUMNS.values()), texts, title, len(COLUMNS)), min_width=WIDTH)
        print_lines(notes)
    raise typer.Exit(1 if undecided.height else 0)


def format_count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
