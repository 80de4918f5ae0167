"""``judge``: have open-ended answers read by a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envs.errors import RunFolderError
from orchestrator.cli.options import WIDTH, AsJson, OwnSweep, RunName, readable_folder, required_name
from orchestrator.cli.printing import print_json, print_lines, print_tables, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def show_agreement(folder: Path, as_json: bool) -> None:
    """Print how far each pair of judges agrees, and how far three or more do together."""
    from orchestrator.report.scores import judge_agreement
    from orchestrator.storage.run_folder import stored_sweep

    stored_sweep(folder)
    rows = judge_agreement.agreement(folder)
    if as_json:
        print_json(rows.to_dicts())
        return
    too_few = "fewer than two judges have read answers of this run"
    show(_agreement_table(rows) if rows.height else too_few, min_width=WIDTH)
    if rows["other"].n_unique() > 1:
        show(_jury_table(judge_agreement.jury(folder)), min_width=WIDTH)


def _agreement_table(rows: pl.DataFrame) -> Table:
    heads = ("judge", "other", "bit", "answers", "equal %", "kappa", "95% interval", "yes %", "other's yes %")
    texts = []
    for row in rows.iter_rows(named=True):
        names = (row["judge"], row["other"], row["bit"], f"{row['answers']:,}")
        kappa = (_figure(row["kappa"]), _limits(row, "kappa"))
        texts.append((*names, _figure(row["equal"]), *kappa, *map(_figure, (row["first_yes"], row["other_yes"]))))
    return text_table(heads, texts, numbers=6)


def _jury_table(rows: pl.DataFrame) -> Table:
    heads = ("bit", "judges", "answers", "alpha", "95% interval", "majority's yes %", "split %")
    texts = [
        (
            row["bit"], str(row["judges"]), f"{row['answers']:,}", _figure(row["alpha"]), _limits(row, "alpha"),
            *map(_figure, (row["majority_yes"], row["split"])),
        )
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip
    return text_table(heads, texts, numbers=6)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _limits(row: dict[str, Any], name: str) -> str:
    return "-" if row[name] is None else f"{row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f}"


def judge(
    output: RunName,
    own: OwnSweep = None,
    judge_name: Annotated[
        str, typer.Option("--judge", metavar="NAME", help="A judge by name (default: the sweep's own).")
    ] = "",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the \\[judge] table.")
    ] = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Also answers that it failed to judge before.")] = False,
    agreement: Annotated[bool, typer.Option("--agreement", help="Judge nothing; show how far judges agree.")] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Judge nothing; correct the judge by a CSV of key, category, suggestion (1 or 0), as `label --export` writes.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge the open-ended answers of a run: those pending, or all of them with another judge."""
    if labels is not None:
        correct_by_labels(output, labels, as_json)
        return
    if agreement:
        show_agreement(readable_folder(output), as_json)
        return
    _judge_answers(output, judge_name, set_, again, own, as_json)


def correct_by_labels(output: str, path: Path, as_json: bool) -> None:
    """Store the labels of a file, and print the judge's shares that they correct."""
    from orchestrator.gold.labels import FILE, store_labels
    from orchestrator.report.read_run import read_run
    from orchestrator.report.statistics.judge_error import FEWEST_LABELS
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.report.tables.model_input import add_notes, input_notes
    from orchestrator.report.tables.open_ended import corrected_table

    if "://" in output:
        raise RunFolderError(f"labels are kept in a folder of this machine; copy {output} to one and name that")
    run_data = read_run(readable_folder(output))
    answers = run_data.episodes.filter(run_data.episodes["ending"] == "answered")
    read, stored = store_labels(run_data.folder, path, answers["key"])
    table = add_notes(corrected_table(run_data), input_notes(run_data.sweep, run_data.folder))
    if as_json:
        print_json(table.numbers.to_dicts() if table.numbers is not None else [])
        return
    print_lines([f"{read:,} labels read, {stored:,} in {run_data.folder / FILE}"])
    too_few = f"too few labels to correct a share: it takes {FEWEST_LABELS} of a model under a condition, two in each scenario"
    show(rich_table(table) if table.rows else too_few, min_width=WIDTH)


def _judge_answers(output: str, judge_name: str, set_: list[str], again: bool, own: OwnSweep, as_json: bool) -> None:
    """Judge answers, print the open-ended table, and exit with 1 if some answers are still pending."""
    from orchestrator.execution.attempt import judge_answers
    from orchestrator.object_store import run_location as remote
    from orchestrator.planning.named_by_user import check_named, read_own_sweep
    from orchestrator.report.scores.judge_agreement import resolve_judge
    from orchestrator.storage.run_folder import stored_sweep

    own_sweep = read_own_sweep(own)
    with remote.open_location(required_name(output)) as location:
        sweep = stored_sweep(location.folder)
        chosen = resolve_judge(sweep, judge_name, set_)
        check_named(location.folder, sweep, [chosen.model], own_sweep, set_, pictures=False)
        rows, complete = judge_answers(sweep, location.folder, chosen, again)
    open_ended = rows.filter(rows["protocol"] == "oeg")
    if as_json:
        print_json(open_ended.to_dicts())
    else:
        print_tables(open_ended, sweep, location.folder)
    raise typer.Exit(location.exit_code(0 if complete else 1))
