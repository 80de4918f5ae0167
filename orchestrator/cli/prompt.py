"""``models try --prompt``: the input of a model or judge as text."""

import sys
from pathlib import Path

from actors.text.printable import printable
from envs.errors import UserError
from sweeps.protocol import ZERO_SHOT, Protocol


def print_prompt(address: str, model: str, sweep: Path | None, data: Path, judge: str, backend: str) -> None:
    """Print the exact input at an address, with file names in place of pictures."""
    from orchestrator.inspection import prompt_preview as preview
    from sweeps.load import build_cell
    from sweeps.own_model import find_models

    scenario, number, condition, protocol, turn = _parse_address(address)
    entry = find_models([model], sweep, backend)[0] if model else None
    cell = build_cell(scenario, condition, entry, protocol, sweep)
    judge_spec = preview.find_judge(judge, protocol, turn)
    sample, pool = preview.find_sample(data, cell.scenario, number)
    try:
        request = preview.find_request(sample, pool, cell, turn, judge_spec)
    except ValueError as reason:
        raise UserError(str(reason)) from None
    reader = judge_spec.model if judge_spec else cell.model
    has_template = bool(model or judge_spec)
    text = preview.apply_chat_template(reader, request) if has_template else None
    if has_template and text is None and reader.backend != "builtin":
        print(f"{reader.name} is not on this disk: showing the conversation without its chat template", file=sys.stderr)
    print(printable(preview.format_messages(preview.shown_messages(request)) if text is None else text))


def _parse_address(address: str) -> tuple[str, int, str, Protocol, int]:
    """Return scenario, sample, condition, protocol and turn of ``ROD/17/hint-oeg/0``; raises UserError."""
    scenario, sample, condition, turn, *more = [*address.split("/"), *[""] * (4 - address.count("/") - 1)]
    if more or not sample.isdecimal() or not (turn or "0").isdecimal():
        raise UserError(f"--prompt {printable(address)} is not SCENARIO/ID[/CONDITION[/TURN]], such as ROD/17/hint/1")
    for protocol in sorted(Protocol, key=len, reverse=True):
        if condition.endswith(f"-{protocol}"):
            return scenario, int(sample), condition.removesuffix(f"-{protocol}"), protocol, int(turn or 0)
    return scenario, int(sample), condition or ZERO_SHOT, Protocol.MCQA, int(turn or 0)
