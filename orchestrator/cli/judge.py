"""``judge``: have open-ended answers read by a judge, and show how far judges agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.json_output import AsJson, print_json
from orchestrator.cli.options import WIDTH, OwnSweep, required_name, viewed
from orchestrator.cli.printing import print_tables, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


def judge(
    output: Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")],
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="A judge by name (default: the sweep's own).")] = "",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the \\[judge] table.")
    ] = [],  # noqa: B006
    again: Annotated[bool, typer.Option("--again", help="Also answers that it failed to judge before.")] = False,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Judge nothing; show how far the judges of the run agree.")
    ] = False,
    own: OwnSweep = None,
    as_json: AsJson = False,
) -> None:
    """Judge the open-ended answers of a run: those pending, or all of them with another judge."""
    if agreement:
        _show_agreement(viewed(output), as_json)
        return
    from orchestrator.execution.attempt import judge_answers
    from orchestrator.object_store import run_location as remote
    from orchestrator.planning.named_by_user import check_named, read_own_sweep
    from orchestrator.report.scores.judge_agreement import resolve_judge
    from orchestrator.storage.run_folder import stored_sweep

    own_sweep = read_own_sweep(own)
    with remote.open_location(required_name(output)) as location:
        sweep = stored_sweep(location.folder)
        chosen = resolve_judge(sweep, by, set_)
        check_named(location.folder, sweep, [chosen.model], own_sweep, set_, pictures=False)
        rows, complete = judge_answers(sweep, location.folder, chosen, again)
    open_ended = rows.filter(rows["protocol"] == "oeg")
    if as_json:
        print_json(open_ended.to_dicts())
    else:
        print_tables(open_ended, sweep, location.folder)
    raise typer.Exit(location.exit_code(0 if complete else 1))


def _show_agreement(folder: Path, as_json: bool) -> None:
    """Print the share of equal verdicts and Cohen's kappa of every pair of judges."""
    from orchestrator.report.scores import judge_agreement
    from orchestrator.storage.run_folder import stored_sweep

    stored_sweep(folder)
    rows = judge_agreement.agreement(folder)
    if as_json:
        print_json(rows.to_dicts())
    else:
        few = "fewer than two judges have read answers of this run"
        show(_agreement_table(rows) if rows.height else few, min_width=WIDTH)


def _agreement_table(rows: pl.DataFrame) -> Table:
    heads = ("judge", "other", "bit", "answers", "equal %", "kappa", "yes %", "other's yes %")
    texts = []
    for row in rows.iter_rows(named=True):
        figures = [row[name] for name in ("equal", "kappa", "first_yes", "other_yes")]
        figure_texts = ["-" if figure is None else f"{figure:.2f}" for figure in figures]
        texts.append((row["judge"], row["other"], row["bit"], f"{row['answers']:,}", *figure_texts))
    return text_table(heads, texts, numbers=5)
