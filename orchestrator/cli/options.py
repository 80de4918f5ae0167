"""Arguments and options that several commands share, and what they resolve to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError

if TYPE_CHECKING:
    from sweeps.spec import Sweep

WIDTH = 128
"""Columns that the widest table needs; a narrower terminal wraps it rather than losing digits."""


def required_name(text: str) -> str:
    """Return the name of a run folder; raises UserError if it is empty."""
    if not text.strip():
        raise UserError("the name of the run folder is empty; type a folder, or s3://BUCKET/FOLDER")
    return text


def readable_folder(text: str) -> Path:
    """Return a run folder, or a readable copy of one in a bucket; raises UserError."""
    if "://" not in required_name(text):
        if Path(text).is_file():
            raise UserError(f"{printable(text)} is a file, not a run folder; name a folder such as outputs/NAME")
        return Path(text)
    from orchestrator.object_store import run_location as remote

    return remote.readable_folder(text)


RunFolder = Annotated[
    Path, typer.Argument(metavar="DIR", parser=readable_folder, help="A run folder, or s3://BUCKET/FOLDER.")
]
RunFolders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", parser=readable_folder, help="Run folders, or s3://BUCKET/FOLDER.")
]
RunName = Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")]
ByJudge = Annotated[
    str, typer.Option("--judge", metavar="NAME", help="Whose verdicts (default: those of the sweep's judge).")
]
StrictPaper = Annotated[
    bool, typer.Option("--strict-paper", help="Count a failed verdict as zeros, as the package does.")
]
MovedData = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", exists=True, file_okay=False, help="The benchmark folder, if it has moved."),
]
OwnSweep = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SWEEP]",
        help="Your sweep file: allows its services, data and code where the folder names them.",
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        metavar="object|picture|none",
        help="Treat samples of one object, or of one picture or video, as dependent (default: where it widens intervals).",
    ),
]
SweepFile = Annotated[
    Path, typer.Argument(metavar="SWEEP", help="A sweep file, or the name of one that ships (`ls sweeps`).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the sweep file.")]
Output = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="The run folder, or s3://BUCKET/FOLDER (default outputs/<name>)."),
]
ModelSources = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Also this model: a checkpoint's folder, a Hub id, http://HOST/v1#NAME, or a file with [[model]]; may repeat.",
    ),
]
Update = Annotated[bool, typer.Option("--update", help="Resume in a folder that has another configuration.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first, as in a script.")]


def with_local_output(sweep: Sweep) -> Sweep:
    """Return the sweep with a readable copy of its run folder if that is in a bucket."""
    if "://" not in sweep.output:
        return sweep
    from orchestrator.object_store import run_location as remote

    return sweep.model_copy(update={"output": str(remote.readable_folder(sweep.output, started=False))})


def require_data(sweep: Sweep, file: Path) -> None:
    """Raise UserError, naming the paths tried, if the data folder of the sweep is missing."""
    from sweeps.sweep_file import missing_data

    if why := missing_data(sweep.data, file):
        raise UserError(why)


def split_sweep(names: Iterable[str]) -> tuple[list[str], Path | None]:
    """Return the names of models, and the sweep file among them if there is one; raises UserError for two."""
    from sweeps.sweep_file import shipped_sweeps

    models, sweeps = list[str](), list[str]()
    for name in names:
        is_sweep = name.endswith(".toml") or Path(name).is_file() or name in shipped_sweeps()
        (sweeps if is_sweep else models).append(name)
    if len(sweeps) > 1:
        raise UserError(f"name one sweep, not {sweeps[0]} and {sweeps[1]}")
    return models, Path(sweeps[0]) if sweeps else None
