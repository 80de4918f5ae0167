"""``run``: play a sweep."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from orchestrator.cli.options import (
    More,
    Output,
    Overrides,
    Reuse,
    SkipBad,
    SweepFile,
    Update,
    load_sweep,
    require_data,
    reusable_folders,
)
from orchestrator.cli.printing import print_mlflow, print_tables

if TYPE_CHECKING:
    from sweeps.spec import Sweep


Retry = Annotated[
    str,
    typer.Option(
        metavar="ENDINGS",
        help="Replay episodes with these endings: failed,overflow,truncated,unprocessable,refused.",
    ),
]


def run(
    sweep: SweepFile,
    set_: Overrides = [],  # noqa: B006
    output: Output = None,
    skip_bad: SkipBad = False,
    more: More = [],  # noqa: B006
    update: Update = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow: 'sqlite', an address (or in MLFLOW_TRACKING_URI), 'none'.")
    ] = None,
    retry: Retry = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="The same as --retry failed.")] = False,
    reuse: Reuse = [],  # noqa: B006
) -> None:
    """Play the pending episodes of a sweep; rerun the same command to resume."""
    from orchestrator.execution.retry_failed import parse_endings
    from orchestrator.execution.run import run as run_sweep
    from orchestrator.object_store import run_location as remote
    from orchestrator.storage import job_paths

    endings_to_retry = parse_endings(",".join([retry, *(["failed"] if retry_failed else [])]))
    tracked_sweep = _with_tracking(load_sweep(sweep, set_, output, skip_bad, more), tracking_uri)
    job_paths.check_data_path(tracked_sweep.data)
    require_data(tracked_sweep, sweep)
    reused_folders = reusable_folders(reuse)
    with remote.open_location(tracked_sweep.output) as location:
        outcome = run_sweep(tracked_sweep, location.folder, update, retry=endings_to_retry, reuse=reused_folders)
    if not outcome.interrupted:
        print_tables(outcome.rows, tracked_sweep, location.folder)
        _print_next_steps(tracked_sweep, location.folder)
        if failed := int(outcome.rows["failed"].sum()):
            print(f"{failed:,} episodes failed; rerun with --retry-failed to play them again")
    for group, reason in outcome.reasons.items():
        print(printable(f"{group}: {reason}"), file=sys.stderr)
    raise typer.Exit(location.exit_code(outcome.exit_code))


def _with_tracking(sweep: Sweep, uri: str | None) -> Sweep:
    """Return the sweep with its MLflow address: the option, else the file's, else MLFLOW_TRACKING_URI."""
    from sweeps.sections import Tracking

    if uri is None and sweep.tracking.uri == Tracking().uri:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    return sweep.model_copy(update={"tracking": sweep.tracking.model_copy(update={"uri": uri})}) if uri else sweep


def _print_next_steps(sweep: Sweep, folder: Path) -> None:
    print(f"Results: {sweep.output}/results.json")
    print(f"Tables, figures and report.html: proactive-sweep report {sweep.output}")
    print_mlflow(folder)
    if sweep.tracking.uri != "none":
        print(f"Figures, tables and sample episodes in MLflow: proactive-sweep track {folder}")
