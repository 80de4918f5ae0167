"""``audit``: replay stored replies, or transcripts made elsewhere, through the package's rules and ours."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from envs import regular
from envs.errors import UserError
from orchestrator.audit.answers import ReplayError, score_lines
from orchestrator.cli.options import A_RUN, AsJson, MovedData, readable_folder
from orchestrator.cli.printing import print_result, reading


def audit(
    output: Annotated[str, typer.Argument(metavar="[DIR]", help=A_RUN)] = "",
    package: Annotated[Path | None, typer.Option(metavar="PATH", help="Folder that holds proactivebench/.")] = None,
    python: Annotated[str | None, typer.Option(help="A Python interpreter, 3.12 or newer.")] = None,
    install: Annotated[bool, typer.Option("--install", help="Fetch the package first.")] = False,
    data: MovedData = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help='Score lines {"scenario": "ROD", "id": 1, "answers": ["A."]}; with --data.'
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay all stored replies and verdicts through the package proactivebench and ours; exit code 1 if any differs.

    With --answers, score transcripts made elsewhere: JSON lines in, JSON lines out, without pictures or models.
    """
    if answers is not None:
        if data is None or output or package or python or install:
            raise UserError("--answers goes with --data alone: audit --answers FILE.jsonl --data DIR")
        _score_answers(answers, data)
        return
    if not output:
        raise UserError("name a run folder, or score transcripts by: audit --answers FILE.jsonl --data DIR")
    from orchestrator.audit.audit import audit as replay_run

    folder = readable_folder(output)
    with reading([folder]):
        outcome = replay_run(folder, package, python, data, install)
        print_result(as_json, {**asdict(outcome), "clean": outcome.clean}, *outcome.lines())
    raise typer.Exit(0 if outcome.clean else 1)


def _score_answers(file: Path, data: Path) -> None:
    try:
        with io.TextIOWrapper(regular.open_file(file), encoding="utf-8", newline="\n") as lines:
            for line in score_lines(data, lines, str(file)):
                print(json.dumps(line))
    except UnicodeDecodeError as problem:
        raise ReplayError(f"{file} is not UTF-8 text: {problem}") from None
