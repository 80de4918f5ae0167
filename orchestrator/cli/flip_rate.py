"""``models try DIR --flip-rate``: replay a share of a run in other settings, and count changed answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import WIDTH
from orchestrator.cli.printing import print_json
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.flip_rate.flip_rate import Flips, Repeats
    from orchestrator.flip_rate.repeats import Setting

MAX_CELLS = 10
"""Changed cells that the terminal shows."""
SETTINGS = "batch=N, workers=N, same or caches-off"


def replay_share(
    folder: Path, share: float, settings: Iterable[str], data: Path | None, own: Path | None, yes: bool, as_json: bool
) -> None:
    """Replay a seeded share of a finished run, which stays unchanged; repeats are stored in DIR/flip-rate."""
    from orchestrator.flip_rate import flip_rate as flips
    from orchestrator.flip_rate.repeats import PLAIN, WITHOUT_CACHES, repeated_players
    from orchestrator.planning.named_by_user import check_named, read_own_sweep
    from orchestrator.storage.disk import disk_errors

    batch, workers, plain = _parse_settings(settings, {"same": PLAIN, "caches-off": WITHOUT_CACHES})
    repeats = flips.prepare_repeats(folder, share, 0, batch, workers, data, plain)
    check_named(repeats.folder, repeats.sweep, repeated_players(repeats.sweep), read_own_sweep(own))
    for line in repeats.lines():
        _say(line, as_json)
    _confirm_services(repeats, yes)
    outcome = flips.play(repeats, lambda line: _say(line, as_json))
    if not outcome.interrupted:
        comparison = flips.compare_repeats(repeats)
        with disk_errors(repeats.folder):
            output = flips.write_tables(repeats, comparison)
        _show(repeats, comparison, output, as_json)
    raise typer.Exit(outcome.exit_code)


def _parse_settings(texts: Iterable[str], names: Mapping[str, Setting]) -> tuple[list[int], list[int], list[Setting]]:
    """Return the batch sizes, the worker counts and the other settings that the option names; raises UserError."""
    numbers: dict[str, list[int]] = {"batch": [], "workers": []}
    plain: list[Setting] = []
    for text in texts:
        key, _, number = text.partition("=")
        if text in names:
            plain.append(names[text])
        elif key in numbers and number.isdecimal() and 0 < int(number) <= 4096:
            numbers[key].append(int(number))
        else:
            raise UserError(f"--repeat {printable(text)} is none of {SETTINGS}")
    return numbers["batch"], numbers["workers"], plain


def _confirm_services(repeats: Repeats, yes: bool) -> None:
    """Ask before paid requests are sent; raises UserError without a terminal."""
    if yes or not repeats.asks_services:
        return
    if not sys.stdin.isatty():
        raise UserError("this would send paid requests to services; check the costs above and add --yes")
    if not typer.confirm("play these episodes again?"):
        print("nothing was played")
        raise typer.Exit(1)


def _say(line: str, as_json: bool) -> None:
    print(printable(line), file=sys.stderr if as_json else sys.stdout, flush=True)


def _show(repeats: Repeats, comparison: Flips, output: Path, as_json: bool) -> None:
    if as_json:
        print_json({
            "share": repeats.share, "seed": repeats.seed, "folder": str(output), "notes": comparison.notes,
            "rates": comparison.rates.to_dicts(), "cells": comparison.cells.to_dicts(),
        })  # fmt: skip
        return
    from orchestrator.report.tables.flip_rates import changed_cell_table, rate_table
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.report.tables.model_input import add_notes, input_notes

    notes = input_notes(repeats.sweep, repeats.folder)
    changed = comparison.cells.filter(comparison.cells["lost"] + comparison.cells["won"] > 0)
    tables = [rate_table(comparison.rates), *([changed_cell_table(changed.head(MAX_CELLS))] if changed.height else [])]
    show(*(rich_table(add_notes(table, notes)) for table in tables), min_width=WIDTH)
    if changed.height > MAX_CELLS:
        print(f"and {changed.height - MAX_CELLS:,} more cells with changed answers")
    print(*map(printable, comparison.notes), f"tables: {printable(str(output))}", sep="\n")
