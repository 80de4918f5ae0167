"""Arguments and options that several commands share, and what they resolve to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError

A_RUN = "A run folder, or s3://BUCKET/FOLDER."


def required_name(text: str) -> str:
    """Return the name of a run folder; raises UserError if it is empty."""
    if not text.strip():
        raise UserError("the name of the run folder is empty; type a folder, or s3://BUCKET/FOLDER")
    return text


def readable_folder(text: str, started: bool = True) -> Path:
    """Return a run folder, or a readable copy of one in a bucket, which is ``started``; raises UserError."""
    if "://" not in required_name(text):
        if Path(text).is_file():
            raise UserError(f"{printable(text)} is a file, not a run folder; name a folder such as outputs/NAME")
        return Path(text)
    from orchestrator.object_store import run_location as remote

    return remote.readable_folder(text, started)


RunFolder = Annotated[Path, typer.Argument(metavar="DIR", parser=readable_folder, help=A_RUN)]
RunFolders = Annotated[list[Path], typer.Argument(metavar="DIR...", parser=readable_folder, help=A_RUN)]
RunName = Annotated[str, typer.Argument(metavar="DIR", help=A_RUN)]
ByJudge = Annotated[str, typer.Option("--judge", metavar="NAME", help="Whose verdicts (default: the sweep's judge).")]
StrictPaper = Annotated[bool, typer.Option("--strict-paper", help="A failed verdict is zeros, as in the package.")]
MOVED = "The benchmark folder, if it has moved."
MovedData = Annotated[Path | None, typer.Option("--data", metavar="DIR", exists=True, file_okay=False, help=MOVED)]
CLUSTERS = "automatic|object|picture|none"
Cluster = Annotated[str, typer.Option(metavar=CLUSTERS, help="Samples that count as one; automatic: what widens more.")]
Names = Annotated[str, typer.Option(help="Names joined by commas, or all.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Overrides = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the sweep file.")]
Output = Annotated[str | None, typer.Option("--output", metavar="DIR", help=f"{A_RUN} Default: outputs/<name>.")]
A_MODEL = "Also this folder of a checkpoint, Hub id, http://HOST/v1#NAME, or file with [[model]]; may repeat."
ModelSources = Annotated[list[str], typer.Option("--model", metavar="MODEL", help=A_MODEL)]
Update = Annotated[bool, typer.Option("--update", help="Resume in a folder that has another configuration.")]
