"""Arguments and options that several commands share, and what they resolve to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from envs.errors import RunFolderError
from envs.samples import BadData
from sweeps.sweep_file import SweepError

if TYPE_CHECKING:
    from sweeps.spec import Sweep

WIDTH = 128
"""Columns that the widest table needs; a narrower terminal wraps it rather than losing digits."""


def required_name(text: str) -> str:
    """Return the name of a run folder; raises RunFolderError if it is empty."""
    if not text.strip():
        raise RunFolderError("the name of the run folder is empty; type a folder, or s3://BUCKET/FOLDER")
    return text


def readable_folder(text: str) -> Path:
    """Return a run folder, or a readable copy of one in a bucket; raises RunFolderError."""
    if "://" not in required_name(text):
        if Path(text).is_file():
            raise RunFolderError(f"{printable(text)} is a file, not a run folder; name a folder such as outputs/NAME")
        return Path(text)
    from orchestrator.object_store import run_location as remote

    return remote.readable_folder(text)


def _benchmark(text: str) -> Path:
    if not Path(text).is_dir():
        # printable: pydantic, which calls this, fails on names that are not UTF-8
        raise BadData(
            f"--data {printable(text)} is not a folder; name the one that holds the *_preprocessed.jsonl files"
        )
    return Path(text)


RunFolder = Annotated[
    Path, typer.Argument(metavar="DIR", parser=readable_folder, help="A run folder, or s3://BUCKET/FOLDER.")
]
RunFolders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", parser=readable_folder, help="Run folders, or s3://BUCKET/FOLDER.")
]
ByJudge = Annotated[str, typer.Option("--judge", metavar="KEY", help="Whose verdicts (default: the sweep's judge).")]
StrictPaper = Annotated[
    bool, typer.Option("--strict-paper", help="Count a failed verdict as zeros, as the package does.")
]
MovedData = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", parser=_benchmark, help="The benchmark folder, if it has moved.")
]
OwnSweep = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        metavar="FILE",
        help="Your sweep file: allows its services, data and code where the folder names them.",
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        metavar="object|picture",
        help="Treat samples of one object, or of one picture or video, as dependent (default: where it widens intervals).",
    ),
]
Independent = Annotated[bool, typer.Option("--independent", help="Treat all samples as independent.")]
SweepFile = Annotated[
    Path, typer.Argument(metavar="SWEEP", help="A sweep file, or the name of one that ships (`ls sweeps`).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the sweep file.")]
Output = Annotated[
    str | None,
    typer.Option("--output", metavar="DIR", help="The run folder, or s3://BUCKET/FOLDER (default outputs/<name>)."),
]
Update = Annotated[bool, typer.Option("--update", help="Resume in a folder that has another configuration.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad lines of the data.")]
More = Annotated[
    list[Path],
    typer.Option("--model", metavar="FILE", help="Add the \\[\\[model]] of this file (`train` writes one)."),
]
Reuse = Annotated[
    list[str],
    typer.Option(
        "--reuse",
        metavar="DIR",
        help="Take episodes from this run folder, or s3://BUCKET/FOLDER, instead of playing them; may repeat.",
    ),
]


def load_sweep(
    path: Path, overrides: list[str], output: str | None, skip_bad: bool = False, more: Sequence[Path] = ()
) -> Sweep:
    """Load the sweep that the options describe; raises SweepError."""
    from sweeps.load import load

    sweep = load(path, [*overrides, *(["skip_bad=true"] if skip_bad else [])], more)
    if output is not None and not output.strip():
        raise SweepError("--output is empty; name a folder, or omit it for outputs/<name>")
    return sweep if output is None else sweep.model_copy(update={"output": output})


def with_local_output(sweep: Sweep) -> Sweep:
    """Return the sweep with a readable copy of its run folder if that is in a bucket."""
    if "://" not in sweep.output:
        return sweep
    from orchestrator.object_store import run_location as remote

    return sweep.model_copy(update={"output": str(remote.readable_folder(sweep.output, started=False))})


def require_data(sweep: Sweep, file: Path) -> None:
    """Raise BadData, naming the paths tried, if the data folder of the sweep is missing."""
    from sweeps.shipped import missing_data

    if why := missing_data(sweep.data, file):
        raise BadData(why)


def reusable_folders(names: Sequence[str]) -> list[tuple[str, Path]]:
    """Return each ``--reuse`` folder as typed, with a readable copy of it; raises RunFolderError."""
    return [(name, readable_folder(name)) for name in dict.fromkeys(names)]
