"""``report`` and ``compare``: tables, figures and pages of run folders, beside the published figures or each other."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import UserError
from orchestrator.cli import printing
from orchestrator.cli.options import AsJson, ByJudge, Cluster, MovedData, RunFolders, StrictPaper
from orchestrator.report.comparisons import run_comparison
from orchestrator.report.html.page import write_page
from orchestrator.report.measures import first_turn_filter as first_turn
from orchestrator.report.measures.clustering import describe_clusters
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import AUTOMATIC, RunData
from orchestrator.report.scores.answer import answer_sentences
from orchestrator.report.tables import all_tables, paper_comparison
from orchestrator.report.tables.evidence import add_notes, input_notes
from orchestrator.report.tables.formats import show
from orchestrator.report.tables.table import text_table
from orchestrator.storage.disk import disk_errors
from sweeps.load import limited_products

IdsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Where --filter writes the ids that it keeps.")]
A_SHARE = "Only show which samples the paper's filter keeps, without those that PERCENT of the models get at once."
Filter = Annotated[int | None, typer.Option("--filter", min=1, max=100, metavar="PERCENT", help=A_SHARE)]


@printing.reads_folders
def report(
    folders: RunFolders,
    data: MovedData = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables; write nothing.")] = False,
    figures: Annotated[bool, typer.Option("--figures", help="Also draw every figure, as PDF and SVG.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = AUTOMATIC,
    output: IdsFile = None,
    filter_: Filter = None,
    as_json: AsJson = False,
) -> None:
    """Print whether each model asks and the paper's tables; write tables/ and report.html into the run folder.

    --json writes nothing.
    """
    folder, *others = folders
    if others:
        typed = shlex.join(map(str, folders))
        compared = f"`compare {typed}` for differences on the same samples"
        merged = f"`merge {typed} --output DIR` for one run whose report ranks all models"
        raise UserError(f"report shows one run; type {compared}, or {merged}")
    if output is not None and filter_ is None:
        raise UserError("--output requires --filter PERCENT; report.html and tables/ are written into the run folder")
    if filter_ is not None:
        _show_filter(folder, filter_, output, as_json)
        return
    _report_run(read_run(folder, data, judge, strict_paper, cluster), not brief, figures, as_json)


@printing.reads_folders
def compare(
    folders: RunFolders,
    data: MovedData = None,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = AUTOMATIC,
    as_json: AsJson = False,
) -> None:
    """Compare one run with the published figures, or several runs with the first one, on the same samples."""
    runs = [read_run(folder, data, judge, strict_paper, cluster) for folder in folders]
    if len(runs) > 1:
        _compare_runs(runs, as_json)
    else:
        _compare_with_paper(runs[0], as_json)


def _report_run(run_data: RunData, write: bool, figures: bool, as_json: bool) -> None:
    """Print the tables of a run, and write its files."""
    if as_json:
        intervals = f"score intervals over independent samples; in pages: {describe_clusters(run_data)}"
        notes = [*run_data.notes, *input_notes(run_data.sweep, run_data.folder)]
        answers = list(answer_sentences(run_data.rows, run_data.sweep, run_data.folder))
        document = {"answers": answers, "cells": run_data.rows.to_dicts(), "intervals": intervals, "notes": notes}
        printing.print_json(document)
        return
    written = _write_run(run_data, figures) if write else ()  # before a reader of this output may close it
    printing.print_tables(run_data.rows, run_data.sweep, run_data.folder)
    show(*all_tables.terminal_tables(run_data))
    printing.print_sources(run_data.folder, [*limited_products(run_data.sweep), *run_data.left_out])
    printing.print_lines(written)
    printing.print_answers(run_data.rows, run_data.sweep, run_data.folder)


def _write_run(run_data: RunData, figures: bool) -> Sequence[str]:
    """Write tables, page and figures; return a line on each kind."""
    from orchestrator.report.figures.draw import write_figures

    folder = run_data.folder
    with disk_errors(folder):
        files = all_tables.write_tables(run_data)
        page = write_page(run_data)
        drawn = write_figures(run_data) if figures else []
    return (
        f"intervals: {describe_clusters(run_data)}",
        f"{len(files)} files in {folder}/tables; open {page} in a browser",
        f"{len(drawn)} files in {folder}/figures" if figures else "report --figures draws every figure",
    )


def _compare_runs(runs: Sequence[RunData], as_json: bool) -> None:
    """Print the differences of all other runs from the first, on the same samples."""
    differences = run_comparison.compare_runs(runs)
    tables = run_comparison.comparison_tables(differences)
    notes = [*differences.notes, *differences.input_notes]
    document = {"cells": differences.cells.to_dicts(), "averages": differences.averages.to_dicts(), "notes": notes}
    printing.print_result(as_json, document, *tables, run_comparison.LEGEND, *differences.notes)


def _compare_with_paper(run_data: RunData, as_json: bool) -> None:
    """Print the run's figures beside the published ones."""
    figures = paper_comparison.compare_with_paper(run_data)
    notes = [*paper_comparison.comparison_notes(figures), f"intervals: {describe_clusters(run_data)}"]
    notes_on_input = input_notes(run_data.sweep, run_data.folder)
    document = {"figures": figures.to_dicts(), "notes": [*notes, *notes_on_input]}
    tables = (add_notes(table, notes_on_input) for table in paper_comparison.comparison_tables(figures))
    printing.print_result(as_json, document, *tables, *notes)


def _show_filter(folder: Path, percent: int, output: Path | None, as_json: bool) -> None:
    """Print how many samples are kept, and write their ids into a file; exits with 1 if some are undecided."""
    run_data = read_run(folder)
    models, samples = first_turn.filter_samples(run_data, percent)
    rows, undecided = first_turn.count_samples(samples), samples.filter(samples["kept"].is_null())
    notes = [*run_data.notes, f"models: {', '.join(models)}, at the first turn of zero-shot"]
    if undecided.height:
        notes.append(f"{undecided.height:,} samples stay undecided until they are answered (--json lists them)")
    if output is not None:
        with disk_errors(output):
            first_turn.write_ids(samples, output)
        remedy = f"play only them with --set {shlex.quote(f'selection.ids_file={output}')}"
        notes.append(f"{output} holds the {int(samples['kept'].sum()):,} kept ids; {remedy}")
    document = {"models": models, "percent": percent, "scenarios": rows.to_dicts()}
    document |= {"undecided": undecided.to_dicts(), "notes": notes}
    title = f"gone: right at the first turn of {percent}% of the {len(models)} models; published: kept by the paper"
    table = text_table(rows.columns, rows.iter_rows(), title, rows.width - 1)
    printing.print_result(as_json, document, table, *notes)
    raise typer.Exit(1 if undecided.height else 0)
