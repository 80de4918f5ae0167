"""``models try DIR --flip-rate``: play a share of a run again in other batches, and count changed answers."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import WIDTH
from orchestrator.cli.printing import print_json
from orchestrator.monitoring.console import show


def replay_share(folder: Path, share: float, data: Path | None, own: Path | None, yes: bool, as_json: bool) -> None:
    """Play a seeded share of a finished run again, which stays unchanged; repeats are stored in DIR/flip-rate."""
    from orchestrator.flip_rate import compare_repeats, play, prepare_repeats
    from orchestrator.planning.named_by_user import check_named, read_own_sweep
    from orchestrator.report.tables.flip_rates import rate_table
    from orchestrator.report.tables.formats import rich_table
    from orchestrator.storage.disk import disk_errors

    def say(text: str) -> None:
        print(printable(text), file=sys.stderr if as_json else sys.stdout, flush=True)

    repeats = prepare_repeats(folder, share, data)
    check_named(repeats.folder, repeats.sweep, repeats.players, read_own_sweep(own))
    for text in repeats.lines():
        say(text)
    if not yes and any(model.backend == "openai" for model in repeats.players):
        raise UserError("this would send paid requests to services; check the costs above and add --yes")
    outcome = play(repeats, say)
    if not outcome.interrupted:
        with disk_errors(repeats.folder):
            rates, notes = compare_repeats(repeats)
        if as_json:
            print_json({"share": share, "folder": str(repeats.output), "notes": notes, "rates": rates.to_dicts()})
        else:
            show(rich_table(rate_table(rates)), *map(printable, notes), min_width=WIDTH)
    raise typer.Exit(outcome.exit_code)
