"""``filter``: the paper's filter made again from a run over all samples, as a table and as a file of ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.printable import printable
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import WIDTH, RunFolder
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from orchestrator.report.first_turn_filter import FirstTurns

NAMED = 5
"""Undecided samples that are named."""
COLUMNS = ("samples", "kept", "gone", "undecided", "published", "shared", "first_turn", "first_turn_kept")
HEADINGS = ("samples", "kept", "gone", "undecided", "paper keeps", "both keep", "first turn %", "of kept %")


def filter(
    folder: RunFolder,
    threshold: Annotated[
        int,
        typer.Option(min=1, max=100, metavar="PERCENT", help="Of the models, who must be right for a sample to go."),
    ] = 25,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FILE", help="Write the kept ids there, as JSON.")
    ] = None,
    models: Annotated[
        str, typer.Option(metavar="NAME,...", help="Whom to ask (default: all but policies and people).")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Recompute from a run over all samples which ones the filter keeps; exit code 1 if some are undecided."""
    from orchestrator.report import first_turn_filter as first
    from orchestrator.report.run_data import read
    from orchestrator.storage.disk import disk

    run_data = read(folder)
    found = first.first_turns(run_data, [name for name in models.split(",") if name])
    tables = {percent: first.kept_counts(found, percent) for percent in sorted({threshold, *first.THRESHOLDS})}
    undecided = found.decided(threshold).filter(found.decided(threshold)["kept"].is_null())
    if into is not None:
        with disk(into):
            first.write_ids(found, threshold, into)
    if as_json:
        show_json({
            "models": found.models, "threshold": threshold, "thresholds": {p: rows.to_dicts() for p, rows in tables.items()},
            "rules": list(_rules(found, tables)), "undecided": undecided.to_dicts(), "notes": run_data.notes,
        })  # fmt: skip
    else:
        count = len(found.models)
        show(_by_scenario(tables[threshold], threshold, count), _by_rule(found, tables), least=WIDTH)
        print(*map(printable, (*run_data.notes, *_told(found, undecided, threshold, into))), sep="\n")
    raise typer.Exit(1 if undecided.height else 0)


def _by_scenario(rows: pl.DataFrame, percent: int, models: int) -> Table:
    from rich.markup import escape
    from rich.table import Column, Table

    from orchestrator.report.first_turn_filter import needed

    title = f"a sample goes when {percent}% of the models ({needed(percent, models)} of {models}) are right at the first turn"
    table = Table("scenario", *(Column(name, justify="right") for name in HEADINGS), title=title, title_justify="left")
    for row in rows.iter_rows(named=True):
        table.add_row(escape(row["scenario"]), *(_figure(row[name]) for name in COLUMNS))
    return table


def _by_rule(found: FirstTurns, tables: dict[int, pl.DataFrame]) -> Table:
    from rich.table import Column, Table

    from orchestrator.report.first_turn_filter import RATE

    heads = (
        "rule",
        "right",
        "kept",
        "undecided",
        "paper keeps",
        "both keep",
        "of kept %",
        f"recall at {RATE:.0%}",
        "at chance",
    )
    heading = (Column(name, justify="left" if name == "rule" else "right") for name in heads)
    title = f"other rules; of samples with a first-turn rate of {RATE:.0%}, and where all guess, the percent that goes"
    table = Table(*heading, title=title, title_justify="left")
    for rule in _rules(found, tables):
        table.add_row(*(value if isinstance(value, str) else _figure(value) for value in rule.values()))
    return table


def _rules(found: FirstTurns, tables: dict[int, pl.DataFrame]) -> Iterator[dict[str, Any]]:
    """One row a threshold and one for the binomial test, whose kept samples nobody proposes."""
    from orchestrator.report import first_turn_filter as first

    models = len(found.models)
    for percent, rows in tables.items():
        need, (whole,) = first.needed(percent, models), rows.filter(scenario=first.TOTAL).to_dicts()
        counts = {name: whole[name] for name in ("kept", "undecided", "published", "shared", "first_turn_kept")}
        yield {"rule": f"{percent}% of the models", "needed": need, **counts, **_recalls(need, models)}
    need = first.binomial_needs(models)
    counts = dict.fromkeys(("kept", "undecided", "published", "shared", "first_turn_kept"))
    yield {"rule": f"binomial test, p < {first.ALPHA}", "needed": need, **counts, **_recalls(need, models)}


def _recalls(need: int, models: int) -> dict[str, float]:
    from orchestrator.report import first_turn_filter as first

    return {"recall": first.recall(need, models), "at_chance": first.recall(need, models, first.CHANCE)}


def _told(found: FirstTurns, undecided: pl.DataFrame, percent: int, into: Path | None) -> Iterator[str]:
    """What a reader must know beside the tables, one sentence each."""
    yield f"asked: {', '.join(found.models)}, at the first turn of zero-shot"
    short = found.samples.filter(found.samples["lacking"] > 0)
    if short.height:
        yield f"{short.height:,} samples lack answers of some models (not played, or errors); none of these counts as wrong"
    if undecided.height:
        named = [f"{row['scenario']}/{row['sample_id']:04d}" for row in undecided.head(NAMED).iter_rows(named=True)]
        more = f" and {undecided.height - NAMED:,} more" if undecided.height > NAMED else ""
        yield f"{undecided.height:,} samples are undecided until these answers are there: {', '.join(named)}{more}"
    if into is not None:
        kept = sum(map(len, found.ids(percent).values()))
        yield f"{into} holds the {kept:,} ids that are kept; play them alone: --set selection.ids_file={into}"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
