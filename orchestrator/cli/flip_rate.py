"""``models flip-rate``: replay a share of a run at other batch sizes and worker counts, and count changed answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from envs.errors import RunFolderError
from orchestrator.cli.options import WIDTH, AsJson, MovedData, OwnSweep, required_name
from orchestrator.cli.printing import print_json
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.flip_rate.flip_rate import Flips, Repeats

MAX_CELLS = 10
"""Changed cells that the terminal shows."""
BatchSizes = Annotated[
    list[int], typer.Option("--batch", min=1, max=4096, help="Episodes at once; may repeat. Default: 1 and 8.")
]
WorkerCounts = Annotated[
    list[int], typer.Option("--workers", min=1, max=4096, help="Replicas per model; may repeat. Default: 2.")
]


def flip_rate(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A run folder on this machine.")],
    share: Annotated[
        float, typer.Option(min=0.01, max=100, metavar="PERCENT", help="Share of each scenario's samples.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the drawn samples.")] = 0,
    batch: BatchSizes = [],  # noqa: B006
    workers: WorkerCounts = [],  # noqa: B006
    repeat: Annotated[bool, typer.Option("--repeat", help="Replay with the run's own settings.")] = False,
    caches_off: Annotated[
        bool, typer.Option("--caches-off", help="Replay without vLLM's caches of prompts and pictures.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Send requests to paid services without asking, as in a script.")
    ] = False,
    data: MovedData = None,
    own: OwnSweep = None,
    as_json: AsJson = False,
) -> None:
    """Replay a seeded share of a finished run at other batch sizes and worker counts, and count changed answers.

    The defaults apply if no setting is given. The run itself stays unchanged; repeats are stored in DIR/flip-rate. Rerun
    the same command to resume.
    """
    from orchestrator.flip_rate import flip_rate as flips
    from orchestrator.flip_rate.repeats import PLAIN, WITHOUT_CACHES, repeated_players
    from orchestrator.planning.named_by_user import check_named, read_own_sweep
    from orchestrator.storage.disk import disk_errors

    settings = [setting for setting, wanted in ((PLAIN, repeat), (WITHOUT_CACHES, caches_off)) if wanted]
    repeats = flips.prepare_repeats(_local(folder), share, seed, batch, workers, data, settings)
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


def _local(folder: str) -> Path:
    if "://" in required_name(folder):
        raise RunFolderError(f"{folder} is not a local folder; download it first")
    return Path(folder)


def _confirm_services(repeats: Repeats, yes: bool) -> None:
    """Ask before paid requests are sent; raises RunFolderError without a terminal."""
    if yes or not repeats.asks_services:
        return
    if not sys.stdin.isatty():
        raise RunFolderError("this would send paid requests to services; check the costs above and add --yes")
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
    show(rich_table(add_notes(rate_table(comparison.rates), notes)), min_width=WIDTH)
    if changed.height:
        show(rich_table(add_notes(changed_cell_table(changed.head(MAX_CELLS)), notes)), min_width=WIDTH)
    if changed.height > MAX_CELLS:
        print(f"and {changed.height - MAX_CELLS:,} more cells with changed answers")
    print(*map(printable, comparison.notes), f"tables: {printable(str(output))}", sep="\n")
