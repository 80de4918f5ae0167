"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envs.samples import BadData
from orchestrator.storage.lock import RunFolderError

WIDTH = 128
"""Columns that the widest table needs; a narrower terminal wraps it rather than losing digits."""


def named(text: str) -> str:
    """The name of a run folder; raises RunFolderError where it is empty."""
    if not text.strip():
        raise RunFolderError("the name of the run folder is empty; type a folder, or s3://BUCKET/FOLDER")
    return text


def viewed(text: str) -> Path:
    """A run folder to read (``run_location.viewed``)."""
    if "://" not in named(text):
        return Path(text)
    from orchestrator.object_store import run_location as remote

    return remote.viewed(text)


def benchmark(text: str) -> Path:
    """The folder that ``--data`` names; raises BadData where it is none."""
    if not Path(text).is_dir():
        raise BadData(f"--data {text} is no folder; name the one that holds the *_preprocessed.jsonl files")
    return Path(text)


RunFolder = Annotated[Path, typer.Argument(metavar="DIR", parser=viewed, help="A run folder, or s3://BUCKET/FOLDER.")]
RunFolders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", parser=viewed, help="Run folders, or s3://BUCKET/FOLDER.")
]
ByJudge = Annotated[str, typer.Option("--judge", metavar="KEY", help="Whose verdicts (default: the sweep's judge).")]
StrictPaper = Annotated[
    bool, typer.Option("--strict-paper", help="A verdict that could not be had counts as zeros, as in the package.")
]
MovedData = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", parser=benchmark, help="The benchmark folder, if it has moved.")
]
"""The data of a run that has been played."""
Cluster = Annotated[
    str, typer.Option(metavar="object|picture", help="Count samples of one object, or picture or video, as alike.")
]
