"""``prompt``: what a model or a judge is sent, as text or as the token ids that its engine makes of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.printable import printable
from envs.samples import BadData
from sweeps.protocol import Protocol
from sweeps.sweep_file import SweepError


def prompt(
    scenario: Annotated[str, typer.Argument(help="Short or long name.")],
    sample: Annotated[int, typer.Argument(metavar="ID", help="The sample's id.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The benchmark folder.")] = Path(
        "outputs/demo-data"
    ),
    condition: Annotated[str, typer.Option(help="`ls conditions` lists them.")] = "zero-shot",
    sweep: Annotated[
        Path | None, typer.Option("--sweep", metavar="SWEEP", help="A file whose \\[\\[condition]] may be named.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Apply this model's chat template; a name, or a checkpoint's folder.")
    ] = "",
    turn: Annotated[int, typer.Option(min=0, help="Which turn; earlier ones are answered with right suggestions.")] = 0,
    seed: Annotated[int, typer.Option(help="The sweep's seed.")] = 0,
    protocol: Annotated[
        Protocol, typer.Option(help="Multiple choice, open-ended in one turn or many, or tool calls.")
    ] = Protocol.MCQA,
    judge: Annotated[str, typer.Option(help="Show what this judge is sent about --answer; `ls judges`.")] = "",
    answer: Annotated[str, typer.Option(help="What a model is taken to have said.")] = "",
    token_ids: Annotated[bool, typer.Option("--token-ids", help="Print the engine's token ids, as JSON.")] = False,
    backend: Annotated[str, typer.Option(help="The engine: transformers or vllm (default: the model's own).")] = "",
) -> None:
    """Print exactly what a model, or a judge, is sent, with picture names in place of pictures."""
    from orchestrator.inspection import prompt_preview as asked
    from sweeps.load import one_cell

    entry = asked.checkpoint(model, backend)
    cell = one_cell(scenario, condition, "" if entry else model, protocol, sweep)
    cell = cell.model_copy(update={"model": entry}) if entry else cell
    by = asked.named_judge(judge, answer, protocol, turn)
    found, pool = asked.find(data, cell.scenario, sample)
    try:
        conversation = asked.put(found, pool, cell, seed, turn, by, answer)
    except ValueError as few:
        raise BadData(str(few)) from None
    addressed = by.model if by else cell.model
    if token_ids:
        if not (model or by):
            raise SweepError("--token-ids are one model's: add --model NAME, or --model FOLDER of a checkpoint")
        print(json.dumps(asked.token_ids(addressed, data, conversation, found)))
        return
    text = asked.templated(addressed, conversation) if model or by else None
    if (model or by) and text is None and addressed.backend != "builtin":
        named = addressed.name
        print(f"{named} is not on this disk: the conversation is shown before its chat template", file=sys.stderr)
    print(printable(asked.written(conversation) if text is None else text))
