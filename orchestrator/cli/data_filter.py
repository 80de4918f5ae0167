"""``data filter``: recompute which samples the paper's filter keeps, from a run over all samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.json_output import AsJson, print_json
from orchestrator.cli.options import WIDTH, RunFolder
from orchestrator.cli.printing import print_lines, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from orchestrator.report.measures.first_turn_filter import FirstTurns

LISTED = 5
"""Undecided samples that are listed by id."""
COLUMNS = ("samples", "kept", "gone", "undecided", "published", "shared", "first_turn", "first_turn_kept")
RULE_COLUMNS = ("kept", "undecided", "published", "shared", "first_turn_kept")
RULE_HEADINGS = ("right", "kept", "undecided", "kept by paper", "kept by both", "of kept %")
HEADINGS = ("samples", "kept", "dropped", "undecided", "kept by paper", "kept by both", "first turn %", "of kept %")

Threshold = Annotated[
    int,
    typer.Option(min=1, max=100, metavar="PERCENT", help="Drop a sample if this share of the models is right at once."),
]
Models = Annotated[
    str, typer.Option(metavar="NAME,...", help="Count these models (default: all but policies and people).")
]


def filter_samples(
    folder: RunFolder,
    threshold: Threshold = 25,
    into: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the kept ids there, as JSON.")] = None,
    models: Models = "",
    as_json: AsJson = False,
) -> None:
    """Recompute which samples the paper's filter keeps, from a run over all; exit code 1 if some are undecided."""
    from orchestrator.report.measures import first_turn_filter as first_turn
    from orchestrator.report.read_run import read_run
    from orchestrator.storage.disk import disk_errors

    run_data = read_run(folder)
    turns = first_turn.first_turns(run_data, [name for name in models.split(",") if name])
    tables = {
        percent: first_turn.threshold_counts(turns, percent) for percent in sorted({threshold, *first_turn.THRESHOLDS})
    }
    decisions = turns.decide(threshold)
    undecided = decisions.filter(decisions["kept"].is_null())
    if into is not None:
        with disk_errors(into):
            first_turn.write_ids(turns, threshold, into)
    if as_json:
        print_json({
            "models": turns.models, "threshold": threshold, "thresholds": {p: rows.to_dicts() for p, rows in tables.items()},
            "rules": list(_rules(turns, tables)), "undecided": undecided.to_dicts(), "notes": run_data.notes,
        })  # fmt: skip
    else:
        scenario_table = _scenario_table(tables[threshold], threshold, len(turns.models))
        show(scenario_table, _rule_table(_rules(turns, tables)), min_width=WIDTH)
        print_lines([*run_data.notes, *_notes(turns, undecided, threshold, into)])
    raise typer.Exit(1 if undecided.height else 0)


def _scenario_table(rows: pl.DataFrame, percent: int, models: int) -> Table:
    from orchestrator.report.measures.first_turn_filter import models_needed

    needed = models_needed(percent, models)
    title = f"dropped: samples that {percent}% of the models ({needed} of {models}) get right at the first turn"
    texts = (
        (row["scenario"], *(_figure(row[name]) + _limits(row, name) for name in COLUMNS))
        for row in rows.iter_rows(named=True)
    )
    return text_table(("scenario", *HEADINGS), texts, title, numbers=len(HEADINGS))


def _rule_table(rules: Iterable[Mapping[str, Any]]) -> Table:
    from orchestrator.report.measures.first_turn_filter import RECALL_RATE

    heads = (*RULE_HEADINGS, f"recall at {RECALL_RATE:.0%}", "at chance")
    title = f"other rules: percent dropped of samples with a first-turn rate of {RECALL_RATE:.0%}, and at chance"
    texts = ((rule["rule"], *map(_figure, list(rule.values())[1:])) for rule in rules)
    return text_table(("rule", *heads), texts, title, numbers=len(heads))


def _rules(turns: FirstTurns, tables: dict[int, pl.DataFrame]) -> Iterator[dict[str, Any]]:
    """Yield one row per threshold and one for the binomial test, which keeps no list of samples."""
    from orchestrator.report.measures import first_turn_filter as first_turn

    models = len(turns.models)
    for percent, rows in tables.items():
        needed = first_turn.models_needed(percent, models)
        (total,) = rows.filter(scenario=first_turn.TOTAL).select(RULE_COLUMNS).to_dicts()
        yield {"rule": f"{percent}% of the models", "needed": needed, **total, **_recalls(needed, models)}
    needed = first_turn.binomial_models_needed(models)
    rule = f"binomial test, p < {first_turn.ALPHA}"
    yield {"rule": rule, "needed": needed, **dict.fromkeys(RULE_COLUMNS), **_recalls(needed, models)}


def _recalls(needed: int, models: int) -> dict[str, float]:
    from orchestrator.report.measures import first_turn_filter as first_turn

    return {
        "recall": first_turn.recall(needed, models),
        "at_chance": first_turn.recall(needed, models, first_turn.CHANCE),
    }


def _notes(turns: FirstTurns, undecided: pl.DataFrame, percent: int, into: Path | None) -> Iterator[str]:
    """Yield the notes below the tables, one sentence each."""
    yield f"models: {', '.join(turns.models)}, at the first turn of zero-shot"
    short = turns.samples.filter(turns.samples["lacking"] > 0)
    if short.height:
        yield f"{short.height:,} samples lack answers of some models (not played, or errors); these count as neither"
    if undecided.height:
        ids = [f"{row['scenario']}/{row['sample_id']:04d}" for row in undecided.head(LISTED).iter_rows(named=True)]
        more = f" and {undecided.height - LISTED:,} more" if undecided.height > LISTED else ""
        yield f"{undecided.height:,} samples stay undecided until these answers exist: {', '.join(ids)}{more}"
    if into is not None:
        count = sum(map(len, turns.ids(percent).values()))
        yield f"{into} holds the {count:,} kept ids; play only them with --set selection.ids_file={into}"


def _limits(row: Mapping[str, Any], name: str) -> str:
    """Return the 95% interval of a figure that has one."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return "" if low is None or high is None else f" ({low:.0f}–{high:.0f})"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
