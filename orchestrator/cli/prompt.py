"""``prompt``: print the input of a model or judge, as text or as its engine's token ids."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.samples import BadData
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sweep_file import SweepError


def prompt(
    scenario: Annotated[str, typer.Argument(help="Short or long name.")],
    sample: Annotated[int, typer.Argument(metavar="ID", help="The sample's id.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The benchmark folder.")] = Path(
        "outputs/demo-data"
    ),
    condition: Annotated[str, typer.Option(help="`ls conditions` lists them.")] = ZERO_SHOT,
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
    answer: Annotated[str, typer.Option(help="The model's reply that the judge reads.")] = "",
    token_ids: Annotated[bool, typer.Option("--token-ids", help="Print the engine's token ids, as JSON.")] = False,
    backend: Annotated[str, typer.Option(help="The engine: transformers or vllm (default: the model's own).")] = "",
) -> None:
    """Print the exact input of a model or judge, with file names in place of pictures."""
    from orchestrator.inspection import prompt_preview as preview
    from sweeps.load import build_cell

    entry = preview.checkpoint_spec(model, backend)
    cell = build_cell(scenario, condition, "" if entry else model, protocol, sweep)
    cell = cell.model_copy(update={"model": entry}) if entry else cell
    by = preview.find_judge(judge, answer, protocol, turn)
    sample_view, pool = preview.find_sample(data, cell.scenario, sample)
    try:
        conversation = preview.build_prompt(sample_view, pool, cell, seed, turn, by, answer)
    except ValueError as reason:
        raise BadData(str(reason)) from None
    addressed = by.model if by else cell.model
    if token_ids:
        if not (model or by):
            raise SweepError("--token-ids requires --model NAME, or --model FOLDER of a checkpoint")
        print(json.dumps(preview.token_ids(addressed, data, conversation, sample_view)))
        return
    text = preview.apply_chat_template(addressed, conversation) if model or by else None
    if (model or by) and text is None and addressed.backend != "builtin":
        name = addressed.name
        print(f"{name} is not on this disk: showing the conversation without its chat template", file=sys.stderr)
    print(printable(preview.format_messages(conversation) if text is None else text))
