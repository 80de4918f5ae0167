"""``play``: a person plays the benchmark on a page of this machine, into a run folder like any model's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envs.samples import BadData
from orchestrator.cli.options import WIDTH, named
from orchestrator.cli.plan import Overrides
from orchestrator.monitoring.console import show
from sweeps.sweep_file import SweepError, override_key, read_sweep

if TYPE_CHECKING:
    from sweeps.spec import Sweep


def play(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="The benchmark folder, or a sweep file to play as it stands.")
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Who plays; the model is human-NAME.")],
    scenarios: Annotated[str, typer.Option(help="Names joined by commas, or all.")] = "",
    conditions: Annotated[str, typer.Option(help="Names joined by commas, played one after the other.")] = "",
    samples: Annotated[int | None, typer.Option(min=1, help="Samples of each scenario, drawn by seed.")] = None,
    set_: Overrides = [],  # noqa: B006
    output: Annotated[str, typer.Option(metavar="DIR", help="The run folder (default outputs/play-NAME).")] = "",
    update: Annotated[bool, typer.Option("--update", help="Go on in a folder of another configuration.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is (default: a free port).")] = 0,
) -> None:
    """Show a person exactly what a model is sent, question by question, and keep the answers as a run.

    The page is on this machine alone. Stop it with Ctrl-C; the same command goes on.
    """
    from orchestrator.execution.attempt import opened
    from orchestrator.human.session import sit
    from orchestrator.object_store import run_location as remote
    from orchestrator.planning.build_plan import build_plan
    from orchestrator.report.console_tables import tables

    sweep = sweep_of(data, name, _keys(scenarios, conditions), _limit(samples, set_), output)
    plan = build_plan(sweep)
    with remote.place(named(sweep.output)) as place, opened(sweep, plan, place.folder, print, update) as attempt:
        outcome = attempt.run(play=lambda mine: sit(mine, port))
    if not outcome.interrupted:
        show(*tables(outcome.rows), least=WIDTH)
        print(f"beside models: proactive-sweep leaderboard {sweep.output} OTHER_RUN")
    raise typer.Exit(place.code(outcome.code))


def sweep_of(data: str, name: str, keys: dict[str, Any], overrides: list[str], output: str = "") -> Sweep:
    """The sweep whose one model is this person: of a data folder, or of a sweep file less its models; raises SweepError."""
    from sweeps.load import build
    from sweeps.values import NAME

    if len(name) > 60 or not re.fullmatch(NAME, name):
        raise SweepError(f"--as {name!r} must be letters, digits, dots, dashes, plus signs or underscores, 60 at most")
    person = {"name": f"human-{name}", "source": f"human:{name}", "backend": "human"}
    table = _table(data) | keys | {"models": [person], "protocol": "mcqa", "tracking": {"uri": "none"}}
    for override in overrides:
        override_key(table, override)
    return build(table, data).model_copy(update={"output": output or f"outputs/play-{name}"})


def _table(data: str) -> dict[str, Any]:
    """The table of a sweep file without what is of its models; of a data folder, its name."""
    if "://" in data or Path(data).is_dir():
        return {"name": "play", "data": data}
    if not data.endswith(".toml") and not Path(data).is_file():
        raise BadData(f"there is no data folder {data}; `proactive-sweep data demo {data}` draws a small one")
    table = read_sweep(Path(data))
    models = ("model", "models", "only", "judge", "open_ended", "protocol", "protocols", "train", "output")
    return {key: value for key, value in table.items() if key not in models}


def _keys(scenarios: str, conditions: str) -> dict[str, Any]:
    """What the options say, as keys of a sweep."""
    named = {"scenarios": scenarios, "conditions": conditions}
    return {key: "all" if text == "all" else text.split(",") for key, text in named.items() if text}


def _limit(samples: int | None, overrides: list[str]) -> list[str]:
    return overrides if samples is None else [f"selection.limit={samples}", *overrides]
