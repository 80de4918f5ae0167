"""``play``: a person plays the benchmark in a browser, into a run folder like a model's."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from envs.samples import BadData
from orchestrator.cli.options import WIDTH, Overrides, Update, required_name
from orchestrator.execution.attempt import open_attempt
from orchestrator.monitoring.console import show
from orchestrator.object_store.run_location import open_location
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.tables.formats import rich_table
from orchestrator.report.tables.paper_tables import result_tables
from proactive_people.person import check_name
from proactive_people.session import sit
from sweeps.load import build
from sweeps.spec import Sweep
from sweeps.sweep_file import override_key, read_sweep


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
    update: Update = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
) -> None:
    """Show a person exactly what a model is sent, question by question, and store the answers as a run.

    The page is served on loopback only. Stop with Ctrl-C; rerun the same command to resume.
    """
    limit = [] if samples is None else [f"selection.limit={samples}"]
    selected = {"scenarios": scenarios, "conditions": conditions}
    keys = {key: "all" if text == "all" else text.split(",") for key, text in selected.items() if text}
    sweep = personal_sweep(data, name, keys, [*limit, *set_], output)
    plan = build_plan(sweep)
    with (
        open_location(required_name(sweep.output)) as location,
        open_attempt(sweep, plan, location.folder, print, update) as attempt,
    ):
        outcome = attempt.run(play=lambda episodes: sit(episodes, port))
    if not outcome.interrupted:
        show(*map(rich_table, result_tables(outcome.rows)), min_width=WIDTH)
        print(f"Compare with models: proactive-sweep compare {shlex.quote(sweep.output)} OTHER_RUN")
    raise typer.Exit(location.exit_code(outcome.exit_code))


def personal_sweep(data: str, name: str, keys: dict[str, Any], overrides: list[str], output: str = "") -> Sweep:
    """Return the sweep of a data folder or file with this person as its only model; raises SweepError."""
    check_name(name)
    person = {"name": f"human-{name}", "source": f"human:{name}", "backend": "human"}
    table = _table(data) | keys | {"models": [person], "protocol": "mcqa", "tracking": {"uri": "none"}}
    for override in overrides:
        override_key(table, override)
    return build(table, data).model_copy(update={"output": output or f"outputs/play-{name}"})


def _table(data: str) -> dict[str, Any]:
    """Return the table of a sweep file without its models; for a data folder, a table that names it."""
    if "://" in data or Path(data).is_dir():
        return {"name": "play", "data": data}
    if not data.endswith(".toml") and not Path(data).is_file():
        raise BadData(f"data folder {data} not found; `proactive-sweep data demo {data}` draws a small one")
    table = read_sweep(Path(data))
    left_out = ("model", "models", "only", "judge", "open_ended", "protocol", "protocols", "train", "output")
    return {key: value for key, value in table.items() if key not in left_out}
