"""``run``: play a sweep."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import say
from envs.errors import UserError
from envs.plural import pluralize
from orchestrator.cli.options import ModelSources, Names, Output, Overrides, Update, readable_folder
from orchestrator.cli.printing import print_answers, print_lines, print_mlflow, print_tables

if TYPE_CHECKING:
    import polars as pl

    from orchestrator.execution.score import AttemptOutcome
    from sweeps.spec import Sweep

SweepName = Annotated[str, typer.Argument(metavar="[SWEEP]", help="A sweep file or shipped sweep; or name --model.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Samples of each scenario.")]
Data = Annotated[str, typer.Option(metavar="DIR", help="The benchmark folder or address.")]
TrackingUri = Annotated[str | None, typer.Option(help="MLflow: sqlite, none, or an address (MLFLOW_TRACKING_URI).")]
TAKE = "Take equal episodes from this run folder or bucket; may repeat."
Reuse = Annotated[list[str], typer.Option(metavar="DIR", help=TAKE)]
AGAIN = "Replay episodes with these endings: failed,overflow,truncated,thoughts_cut,unprocessable,refused."
Retry = Annotated[str, typer.Option(metavar="ENDINGS", help=AGAIN)]

MOST_CUT = 0.05
"""Share of a model's episodes ended by thoughts without an answer, above which ``run`` warns."""


def run(
    sweep: SweepName = "",
    model: ModelSources = [],  # noqa: B006
    limit: Limit = None,
    conditions: Names = "",
    scenarios: Names = "",
    data: Data = "",
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    update: Update = False,
    tracking_uri: TrackingUri = None,
    retry: Retry = "",
    reuse: Reuse = [],  # noqa: B006
) -> None:
    """Play the pending episodes of a sweep, or of models without a sweep; rerun the same command to resume."""
    from orchestrator.cli import sweep_source
    from orchestrator.execution.attempt import run as run_sweep
    from orchestrator.execution.prepare import parse_endings
    from orchestrator.object_store.run_location import open_location
    from orchestrator.storage.disk import check_data_path
    from sweeps.sweep_file import require_data

    endings_to_retry = parse_endings(retry)
    options = {"conditions": conditions, "scenarios": scenarios, "data": data}
    if sweep:
        overrides = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in options.items() if value]
        loaded = sweep_source.load_sweep(Path(sweep), [*overrides, *set_], output, model, limit)
    elif model:
        sweep = str(sweep_source.write_line(model, {"limit": limit, **options, "output": output}, None, set_))
        print_lines([f"{sweep}: the sweep; the same line resumes it, `run {sweep} --update` plays it as edited"])
        loaded = sweep_source.load_sweep(Path(sweep), set_, None)
    else:
        raise UserError("name a sweep (`proactive-sweep ls sweeps`) or --model DIR, OWNER/NAME or http://HOST/v1#NAME")
    tracked_sweep = _with_tracking(loaded, tracking_uri)
    check_data_path(tracked_sweep.data)
    require_data(tracked_sweep.data, Path(sweep))
    folders = [(name, readable_folder(name)) for name in dict.fromkeys(reuse)]
    with open_location(tracked_sweep.output) as location:
        outcome = run_sweep(tracked_sweep, location.folder, update, retry=endings_to_retry, reuse=folders)
    _print_outcome(outcome, tracked_sweep, location.folder)
    raise typer.Exit(location.exit_code(outcome.exit_code))


def _with_tracking(sweep: Sweep, uri: str | None) -> Sweep:
    """Return the sweep with its MLflow address: the option, else the file's, else MLFLOW_TRACKING_URI."""
    from sweeps.sections import Tracking

    if uri is None and sweep.tracking.uri == Tracking().uri:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    return sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})}) if uri else sweep


def _print_outcome(outcome: AttemptOutcome, sweep: Sweep, folder: Path) -> None:
    """Print tables, next steps and answers, then why models stopped; nothing of a run that ended before Ray started."""
    stored = int(outcome.rows["finished"].sum())
    if not outcome.interrupted and (stored or not outcome.reasons):
        print_tables(outcome.rows, sweep, folder)
        print(f"Results: {sweep.output}/results.json")
        print(f"Tables, figures and report.html: proactive-sweep report {shlex.quote(sweep.output)}")
        print_mlflow(folder)
        if sweep.tracking.uri != "none":
            print(f"Figures and tables in MLflow: proactive-sweep track {shlex.quote(str(folder))}")
        if failed := int(outcome.rows["failed"].sum()):
            print_lines([f"{pluralize(failed, 'episode')} failed; rerun with --retry failed to play them again"])
        warn_of_cut_thoughts(outcome.rows)
        print_answers(outcome.rows, sweep, folder)
    for group, reason in outcome.reasons.items() if stored or outcome.seconds else ():
        say(reason if reason.startswith(f"{group}: ") else f"{group}: {reason}")


def warn_of_cut_thoughts(rows: pl.DataFrame) -> None:
    """Name the models of which more than ``MOST_CUT`` of the episodes ended in thoughts."""
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        share = int(part["thoughts_cut"].sum()) / max(1, int(part["finished"].sum()))
        if share > MOST_CUT:
            ended = f"{share:.0%} of its episodes ended in thoughts without an answer"
            say(f"{model}: {ended} and count as not right; raise thinking.budget in its entry")
