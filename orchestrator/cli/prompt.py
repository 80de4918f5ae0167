"""``prompt``: print the input of a model or judge, as text or as its engine's token ids."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable
from envs.samples import BadData
from sweeps.protocol import ZERO_SHOT, Protocol
from sweeps.sweep_file import SweepError

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The benchmark folder.")]
SweepWithConditions = Annotated[
    Path | None,
    typer.Option("--sweep", metavar="SWEEP", help="A file whose \\[\\[condition]] and models may be named."),
]
Model = Annotated[str, typer.Option(help="Apply this model's chat template; a name, or a checkpoint's folder.")]
PlayedProtocol = Annotated[
    Protocol, typer.Option(help="Multiple choice, open-ended in one turn or many, or tool calls.")
]


def prompt(
    scenario: Annotated[str, typer.Argument(help="Short or long name.")],
    sample: Annotated[int, typer.Argument(metavar="ID", help="The sample's id.")],
    data: Data = Path("outputs/demo-data"),
    condition: Annotated[str, typer.Option(help="`ls conditions` lists them.")] = ZERO_SHOT,
    sweep: SweepWithConditions = None,
    model: Model = "",
    turn: Annotated[int, typer.Option(min=0, help="Which turn; earlier ones are answered with right suggestions.")] = 0,
    seed: Annotated[int, typer.Option(help="The sweep's seed.")] = 0,
    protocol: PlayedProtocol = Protocol.MCQA,
    judge: Annotated[str, typer.Option(help="Show what this judge is sent about --answer; `ls judges`.")] = "",
    answer: Annotated[str, typer.Option(help="The model's reply that the judge reads.")] = "",
    token_ids: Annotated[bool, typer.Option("--token-ids", help="Print the engine's token ids, as JSON.")] = False,
    backend: Annotated[str, typer.Option(help="The engine: transformers or vllm (default: the model's own).")] = "",
) -> None:
    """Print the exact input of a model or judge, with file names in place of pictures."""
    from orchestrator.inspection import prompt_preview as preview
    from orchestrator.inspection.checkpoint_entry import checkpoint_spec, own_entry
    from sweeps.load import build_cell

    entry = own_entry(model, sweep, backend) or checkpoint_spec(model, backend)
    cell = build_cell(scenario, condition, entry or model, protocol, sweep)
    judge_spec = preview.find_judge(judge, answer, protocol, turn)
    sample_view, pool = preview.find_sample(data, cell.scenario, sample)
    try:
        conversation = preview.build_prompt(sample_view, pool, cell, seed, turn, judge_spec, answer)
    except ValueError as reason:
        raise BadData(str(reason)) from None
    reader = judge_spec.model if judge_spec else cell.model
    has_template = bool(model or judge_spec)
    if token_ids:
        if not has_template:
            raise SweepError("--token-ids requires --model NAME, or --model FOLDER of a checkpoint")
        print(json.dumps(preview.token_ids(reader, data, conversation, sample_view)))
        return
    text = preview.apply_chat_template(reader, conversation) if has_template else None
    if has_template and text is None and reader.backend != "builtin":
        print(f"{reader.name} is not on this disk: showing the conversation without its chat template", file=sys.stderr)
    print(printable(preview.format_messages(conversation) if text is None else text))
