"""``judge``: have open-ended answers read by a judge."""

from pathlib import Path
from typing import Annotated

import typer

from envs.errors import RunFolderError
from orchestrator.cli.options import WIDTH, AsJson, OwnSweep, RunName, readable_folder, required_name
from orchestrator.cli.printing import print_json, print_lines, print_tables, reading, text_table
from orchestrator.monitoring.console import show
from orchestrator.report.scores import judge_agreement
from orchestrator.storage.run_folder import stored_sweep

Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the [judge] table.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Judge nothing; correct the judge by a CSV of key, category, suggestion (1 or 0), as `label --export` writes.",
    ),
]


def judge(
    output: RunName,
    own: OwnSweep = None,
    judge_name: Annotated[
        str, typer.Option("--judge", metavar="NAME", help="A judge by name (default: the sweep's own).")
    ] = "",
    set_: Settings = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Also answers that it failed to judge before.")] = False,
    agreement: Annotated[bool, typer.Option("--agreement", help="Judge nothing; show how far judges agree.")] = False,
    labels: Labels = None,
    as_json: AsJson = False,
) -> None:
    """Judge the open-ended answers of a run: those pending, or all of them with another judge."""
    if labels is not None and "://" in output:
        raise RunFolderError(f"labels are kept in a folder of this machine; copy {output} to one and name that")
    if labels is not None or agreement:
        folder = readable_folder(output)
        with reading([folder]):
            _correct_by_labels(folder, labels, as_json) if labels else _show_agreement(folder, as_json)
    else:
        _judge_answers(output, judge_name, set_, again, own, as_json)


def _judge_answers(output: str, judge_name: str, set_: list[str], again: bool, own: Path | None, as_json: bool) -> None:
    """Judge answers, print the open-ended table, and exit with 1 if some answers are still pending."""
    from orchestrator.execution.attempt import judge_answers
    from orchestrator.object_store.run_location import open_location
    from orchestrator.planning.named_by_user import check_named
    from sweeps.load import load

    own_sweep = load(own) if own else None
    with open_location(required_name(output)) as location:
        sweep = stored_sweep(location.folder)
        chosen = judge_agreement.resolve_judge(sweep, judge_name, set_)
        check_named(location.folder, sweep, [chosen.model], own_sweep, set_, pictures=False)
        rows, complete = judge_answers(sweep, location.folder, chosen, again)
    open_ended = rows.filter(rows["protocol"] == "oeg")
    if as_json:
        print_json(open_ended.to_dicts())
    else:
        print_tables(open_ended, sweep, location.folder)
    raise typer.Exit(location.exit_code(0 if complete else 1))


def _correct_by_labels(folder: Path, path: Path, as_json: bool) -> None:
    """Store the labels of a file, and print the judge's shares that they correct."""
    from orchestrator.gold.labels import FILE, store_labels
    from orchestrator.report.measures.judge_correction import corrected_shares
    from orchestrator.report.read_run import read_run
    from orchestrator.report.statistics.judge_error import FEWEST_LABELS
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.report.tables.model_input import add_notes, input_notes
    from orchestrator.report.tables.open_ended import open_ended_table

    run_data = read_run(folder)
    answers = run_data.episodes.filter(run_data.episodes["ending"] == "answered")
    read, stored = store_labels(run_data.folder, path, answers["key"])
    shares = corrected_shares(run_data)
    if as_json:
        print_json(shares.to_dicts())
        return
    table = add_notes(open_ended_table(run_data), input_notes(run_data.sweep, run_data.folder))
    print_lines([f"{read:,} labels read, {stored:,} in {run_data.folder / FILE}"])
    too_few = f"too few labels to correct a share: it takes {FEWEST_LABELS} of a model under a condition, two in each scenario"
    show(rich_table(table) if shares["labels"].count() else too_few, min_width=WIDTH)


def _show_agreement(folder: Path, as_json: bool) -> None:
    """Print how far each pair of judges agrees."""
    stored_sweep(folder)
    pairs = judge_agreement.agreement(folder)
    if as_json:
        print_json(pairs.to_dicts())
        return
    agreement = pairs.drop("first_yes", "other_yes")
    rows = ([_format(value) for value in row] for row in agreement.iter_rows())
    too_few = "fewer than two judges have read answers of this run"
    show(text_table(agreement.columns, rows) if pairs.height else too_few, min_width=WIDTH)


def _format(value: object) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
