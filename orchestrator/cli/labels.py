"""``judge --labels``: draw answers for people to label, and correct the judge's shares by the labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import WIDTH, readable_folder
from orchestrator.cli.printing import print_json, print_lines
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl

    from orchestrator.report.run_data import RunData


def label_answers(output: str, path: Path | None, draw: int, active: bool, as_json: bool) -> None:
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
        rows = _draw_sheet(run_data, answers, draw, active)
        safe_write.write(path, csv_text(rows).encode())
        print_lines([f"{rows.height:,} answers in {path}; fill category and suggestion with 1 or 0, and omit --draw"])
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


def _draw_sheet(run_data: RunData, answers: pl.DataFrame, number: int, active: bool) -> pl.DataFrame:
    """Return the rows to label; raises RunFolderError if ``active`` and no second judge has read the answers."""
    from envs.errors import RunFolderError
    from orchestrator.gold import labels
    from orchestrator.report.scores.judge_agreement import disputed_answers
    from orchestrator.storage.verdict_store import judge_names

    folder, stored = run_data.folder, labels.read_labels(run_data.folder)
    draw_arguments = (answers, stored["key"], number, run_data.sweep.seed)
    if not active:
        return labels.label_sheet(folder, answers, labels.draw_answers(*draw_arguments), run_data.samples)
    judges = [*filter(None, stored["drawn"].sort()), *(name for name in judge_names(folder) if name != run_data.judge)]
    if not judges:
        rules_judge = run_data.judge.startswith("rule-judge/")
        command = f"`judge {folder} --by {'MODEL' if rules_judge else 'rule-judge'}`"
        cost = "asks a model of `proactive-sweep ls models`" if rules_judge else "reads all answers and costs nothing"
        raise RunFolderError(f"--active needs the verdicts of a second judge; {command} {cost}")
    disputed = disputed_answers(folder, run_data.judge, judges[0])
    keys = labels.draw_disputed(*draw_arguments, disputed)
    return labels.label_sheet(folder, answers, keys, run_data.samples, judges[0])
