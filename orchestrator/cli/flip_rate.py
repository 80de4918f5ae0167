"""``flip-rate``: a share of a run played again at other batch sizes and numbers of workers, and what has changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.printable import printable
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import WIDTH, MovedData, named
from orchestrator.monitoring.console import show
from orchestrator.storage.lock import RunFolderError

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from orchestrator.flip_rate.flip_rate import Flips, Repeats

SHOWN = 10
"""Changed cells that the terminal shows."""


def flip_rate(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A run folder on this machine.")],
    share: Annotated[float, typer.Option(min=0.01, max=100, metavar="PERCENT", help="Of each scenario's samples.")] = 5,
    seed: Annotated[int, typer.Option(help="Draws the samples.")] = 0,
    batch: Annotated[
        list[int], typer.Option("--batch", min=1, max=4096, help="Episodes at once; may repeat (default: 1 and 8).")
    ] = [],  # noqa: B006
    workers: Annotated[
        list[int], typer.Option("--workers", min=1, max=4096, help="Replicas a model; may repeat (default: 2).")
    ] = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", help="Ask services without asking here, as in a script.")] = False,
    data: MovedData = None,
    as_json: AsJson = False,
) -> None:
    """Play a seeded share of a finished run again at other batch sizes and worker counts, and count what has changed.

    The run is only read; the repeats lie in DIR/flip-rate, and the same command goes on with them.
    """
    from orchestrator.flip_rate import flip_rate as flips
    from orchestrator.storage.disk import disk

    repeats = flips.prepared(_local(folder), share, seed, batch, workers, data)
    for line in repeats.lines():
        _say(line, as_json)
    _agreed(repeats, yes)
    outcome = flips.play(repeats, lambda line: _say(line, as_json))
    if not outcome.interrupted:
        found = flips.compared(repeats)
        with disk(repeats.folder):
            written = flips.write(repeats, found)
        _show(repeats, found, written, as_json)
    raise typer.Exit(outcome.code)


def _local(folder: str) -> Path:
    if "://" in named(folder):
        raise RunFolderError(f"{folder} is no folder of this machine; fetch it, flip-rate plays beside it")
    return Path(folder)


def _agreed(repeats: Repeats, yes: bool) -> None:
    """Services cost money: nobody is asked before the user has seen how much."""
    if yes or not repeats.asks_services:
        return
    if not sys.stdin.isatty():
        raise RunFolderError("services would be asked, and nothing was played; type --yes after looking at the costs")
    if not typer.confirm("play these episodes again?"):
        print("nothing was played")
        raise typer.Exit(1)


def _say(line: str, as_json: bool) -> None:
    print(printable(line), file=sys.stderr if as_json else sys.stdout, flush=True)


def _show(repeats: Repeats, found: Flips, written: Path, as_json: bool) -> None:
    if as_json:
        show_json({
            "share": repeats.share, "seed": repeats.seed, "folder": str(written), "notes": found.notes,
            "rates": found.rates.to_dicts(), "cells": found.cells.to_dicts(),
        })  # fmt: skip
        return
    differing = found.cells.filter(found.cells["lost"] + found.cells["won"] > 0)
    show(_rates(found.rates), *([_cells(differing.head(SHOWN))] if differing.height else []), least=WIDTH)
    if differing.height > SHOWN:
        print(f"and {differing.height - SHOWN:,} more cells with changed answers")
    print(*map(printable, found.notes), f"tables: {printable(str(written))}", sep="\n")


def _rates(rows: pl.DataFrame) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from orchestrator.report.flip_rates import MEASURES, TITLE, entries

    heads = (f"changed {head} %" for head in MEASURES.values())
    table = Table("setting", "model", "episodes", *heads, title=TITLE, title_justify="left")
    for row in rows.iter_rows(named=True):
        texts = (one.text for one in entries(row))
        table.add_row(escape(row["setting"]), escape(row["model"]), f"{row['episodes']:,}", *texts)
    return table


def _cells(rows: pl.DataFrame) -> Table:
    from rich.markup import escape
    from rich.table import Column, Table

    from orchestrator.report.wording import signed

    heads = (Column(name, justify="right") for name in ("n", "acc before", "acc after", "difference", "lost", "won"))
    title = "cells with changed answers: acc on the same episodes, difference in points (95% interval)"
    table = Table("setting", "cell", *heads, title=title, title_justify="left")
    for row in rows.iter_rows(named=True):
        span = f"{signed(row['difference'])} ({signed(row['difference_low'])} to {signed(row['difference_high'])})"
        table.add_row(
            escape(row["setting"]), escape(row["cell"]), f"{row['n']:,}", f"{row['acc_before']:.1f}", f"{row['acc_after']:.1f}",
            span, f"{row['lost']:,}", f"{row['won']:,}",
        )  # fmt: skip
    return table
