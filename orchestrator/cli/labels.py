"""``judge --labels``: draw answers for people to label, and correct the judge's shares by the labels."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.options import WIDTH, readable_folder
from orchestrator.cli.printing import print_json, print_lines
from orchestrator.monitoring.console import show


def label_answers(output: str, path: Path | None, draw: int, as_json: bool) -> None:
    """Write a file of answers to label, or store its labels and print the shares that they correct."""
    from envs.errors import RunFolderError
    from orchestrator.gold import labels
    from orchestrator.report.read_run import read_run
    from orchestrator.report.statistics.judge_error import FEWEST_LABELS
    from orchestrator.report.tables.csv import csv_text
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.report.tables.model_input import add_notes, input_notes
    from orchestrator.report.tables.open_ended import corrected_table
    from orchestrator.storage import safe_write

    if path is None:
        raise RunFolderError("--draw needs a file to write; add --labels FILE")
    if "://" in output and not draw:
        raise RunFolderError(f"labels are kept in a folder of this machine; copy {output} to one and name that")
    folder = readable_folder(output)
    run_data = read_run(folder)
    answers = run_data.episodes.filter(run_data.episodes["ending"] == "answered")
    if draw:
        if path.exists():
            raise RunFolderError(f"{path} exists; name another file, or omit --draw to read its labels")
        labeled = labels.read_labels(folder)["key"]
        keys = labels.draw_answers(answers, labeled, draw, run_data.sweep.seed)
        sheet = labels.label_sheet(folder, answers, keys, run_data.samples)
        safe_write.write(path, csv_text(sheet).encode())
        print_lines([f"{sheet.height:,} answers in {path}; fill category and suggestion with 1 or 0, and omit --draw"])
        return
    samples = labels.samples_by_key(answers, run_data.samples)
    read, stored = labels.store_labels(folder, path, answers["key"], samples)
    table = add_notes(corrected_table(run_data), input_notes(run_data.sweep, run_data.folder))
    if as_json:
        print_json(table.numbers.to_dicts() if table.numbers is not None else [])
        return
    print_lines([f"{read:,} labels read, {stored:,} in {folder / labels.FILE}"])
    too_few = f"too few labels to correct a share: it takes {FEWEST_LABELS} of a model under a condition, two in each scenario"
    show(rich_table(table) if table.rows else too_few, min_width=WIDTH)
