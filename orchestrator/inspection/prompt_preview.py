"""``models try --prompt``: the input of a model or judge as text, built as in a sweep, with names in place of pictures."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.engine.backend import BackendError, Message, Request, Situation
from actors.engine.chat_format import function_schema
from actors.playing import turn_judge
from actors.playing.judge import judge_prompt
from actors.playing.prompts import (
    Past,
    apply_condition,
    examples,
    messages,
    open_question,
    open_view,
    tool_messages,
    turn_view,
)
from envs import SCENARIOS
from envs.bad_lines import Problem, skipped_note
from envs.foreign_suggestions import with_suggestion_pool, with_swapped_pictures
from envs.render import UnreadablePicture
from envs.samples import BadData, is_evaluated, load_samples
from envs.tool_calls import functions, offered_calls
from envs.types import Mode, Sample, State
from sweeps.conditions import Condition, find_rules
from sweeps.load import SweepError
from sweeps.load import build_judge as load_judge
from sweeps.sampling import Sampling
from sweeps.spec import Cell, Judge, ModelSpec, Protocol


def conversation(
    sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int = 0, turn: int = 0, small: bool = False
) -> tuple[Message, ...]:
    """Return the messages at a turn of multiple choice; earlier turns are answered as in ``replay_asks``."""
    if condition.picture == "swapped":
        (sample,) = with_swapped_pictures([sample], pool, seed)
    shown = apply_condition(sample, condition, seed)
    if condition.rules:
        rules = find_rules(condition).load()(shown, condition, seed)
        return tuple(rules.pose(rules.initial(), ()).messages)
    state, past = replay_asks(shown, condition, turn, seed)
    shots = examples(sample, pool, condition, seed, small)
    return messages(shown, turn_view(shown, state, condition), condition, past, shots)


def replay_asks(sample: Sample, condition: Condition, turn: int, seed: int = 0) -> tuple[State, list[Past]]:
    """Answer the turns before ``turn`` with correct suggestions; raise BadData if the episode ends before ``turn``."""
    game, past = SCENARIOS[sample.scenario], list[Past]()
    state = game.initial(sample, condition.mode, seed)
    missing = f"sample {sample.id} of {sample.scenario} has no turn {turn}"
    while state.turn < turn and state.ending is None:
        asks = game.askable(sample, state) if condition.mode is not Mode.REFERENCE else ()
        if not asks:
            raise BadData(f"{missing}: turn {state.turn} is its last")
        past.append((turn_view(sample, state, condition), asks[0]))
        state, _ = game.step(sample, state, asks[0])
    if state.ending is not None:
        raise BadData(f"{missing}: turn {state.turn - 1} is its last")
    return state, past


def build_prompt(
    sample: Sample,
    pool: Sequence[Sample],
    cell: Cell,
    seed: int = 0,
    turn: int = 0,
    judge: Judge | None = None,
    answer: str = "",
) -> tuple[Message, ...]:
    """Return the messages to the cell's model or, with a judge, to the judge of ``answer``; raises ValueError."""
    if judge is not None:
        return judge_messages(sample, cell, judge, answer, turn)
    if cell.protocol is Protocol.TOOLS:
        return tool_calls(sample, pool, cell, seed, turn)
    if cell.protocol.is_open_ended:
        return (open_question(open_view(sample, replay_asks(sample, cell.condition, turn)[0], cell.condition)),)
    return conversation(sample, pool, cell.condition, seed, turn, cell.model.small_examples)


def find_judge(name: str, answer: str, protocol: Protocol, turn: int) -> Judge | None:
    """Return the judge of the command line; raise SweepError for options that do not fit together."""
    if (name or answer) and not protocol.is_open_ended:
        raise SweepError("--judge and --answer require open-ended answers: add --protocol oeg")
    if protocol is Protocol.OEG and turn:
        raise SweepError(f"open-ended generation has one turn, 0; remove --turn {turn}")
    if answer and not name:
        raise SweepError("--answer requires --judge NAME; `proactive-sweep ls judges` lists the judges")
    return load_judge({"model": name}, "the command line") if name else None


def tool_calls(sample: Sample, pool: Sequence[Sample], cell: Cell, seed: int = 0, turn: int = 0) -> tuple[Message, ...]:
    """Return the messages of function calling; native functions follow in a message ``tools``, one JSON line each."""
    condition, native = cell.condition, cell.model.calls_natively
    if condition.picture == "swapped":
        (sample,) = with_swapped_pictures([sample], pool, seed)
    shown = apply_condition(sample, condition, seed)
    state, _ = replay_asks(shown, condition, turn)
    view = turn_view(shown, state, condition)
    tools = functions(offered_calls(shown, state, view))
    prompt = tool_messages(view, tools, condition, native)
    schemas = "\n".join(json.dumps(function_schema(tool), ensure_ascii=False) for tool in tools)
    return (*prompt, Message("tools", schemas)) if native else prompt


def judge_messages(sample: Sample, cell: Cell, judge: Judge, answer: str, turn: int = 0) -> tuple[Message, ...]:
    """Return the messages to the judge of an answer; raises BadData or ValueError."""
    if cell.protocol is Protocol.OEG_MULTI:
        state, _ = replay_asks(sample, cell.condition, turn)
        return turn_judge.turn_judge_prompt(sample, state, open_view(sample, state, cell.condition), answer)[0]
    return judge_prompt(sample, cell, answer, judge)[0]


def format_messages(conversation: Sequence[Message]) -> str:
    """Return the messages as plain text, one block each."""
    blocks = [
        "\n".join([f"[{message.role}]", *(f"<picture {image.key}>" for image in message.images), message.text])
        for message in conversation
    ]
    return "\n\n".join(blocks)


def find_sample(data: Path, scenario: str, sample_id: int) -> tuple[Sample, list[Sample]]:
    """Return a sample by id, including filtered ones, and the pool of its examples; raises BadData."""
    skipped: list[Problem] = []
    samples = load_samples(data, scenario, filtered=False, skipped=skipped)
    sample = next((sample for sample in samples if sample.id == sample_id), None)
    if sample is None:
        nearest = min((sample.id for sample in samples), key=lambda number: abs(number - sample_id))
        ids = f"the nearest id is {nearest}, and ids run from {samples[0].id} to {samples[-1].id}"
        raise BadData(f"{scenario} has no sample with id {sample_id}; {ids}{skipped_note(skipped)}")
    return with_suggestion_pool([sample], data)[0], [other for other in samples if is_evaluated(other, filtered=True)]


def apply_chat_template(model: ModelSpec, conversation: Sequence[Message]) -> str | None:
    """Return the text of the model's chat template; None if the model is not on this disk."""
    if not model.is_local:
        return None
    try:
        from actors.engine.hf.template import template_text
    except ModuleNotFoundError:
        return None
    if conversation[-1].role != "tools":
        return template_text(model, conversation, [])
    tools = [json.loads(line) for line in conversation[-1].text.split("\n")]
    return template_text(model, conversation[:-1], tools)


def token_ids(model: ModelSpec, data: Path, conversation: Sequence[Message], sample: Sample) -> dict[str, Any]:
    """Return the engine's tokens for the conversation: ``{"model", "backend", "tokens", "ids"}``.

    Raises SweepError for an engine that is not available, BadData for a refused prompt or picture.
    """
    if not model.is_local:
        raise SweepError(f"{model.name} runs on {model.backend}, which has no token ids here; use transformers or vllm")
    if conversation[-1].role == "tools":
        raise SweepError(f"--token-ids supports messages only; {model.name} also gets functions")
    from actors.engine.registry import token_ids as tokenize

    view = SCENARIOS[sample.scenario].view(sample, State(0))
    request = Request(tuple(conversation), Sampling(), 0, Situation(sample, State(0), view))
    try:
        ids = asyncio.run(tokenize(model, data, request))
    except (BackendError, UnreadablePicture) as refusal:
        raise BadData(str(refusal)) from None
    except (OSError, ValueError, TypeError, ImportError) as problem:
        first_line = str(problem).strip().partition("\n")[0] or type(problem).__name__
        raise SweepError(f"{model.name}: {first_line[:300]}") from None
    return {"model": model.name, "backend": model.backend, "tokens": len(ids), "ids": ids}
