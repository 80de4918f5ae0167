"""``prompt``: what a model or judge is sent, as text, with picture names in place of pictures.

The messages are built by the same functions as in a sweep.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.engine.backend import BackendError, Message, Request, Situation
from actors.engine.chat_format import function_schema
from actors.playing import turn_judge
from actors.playing.judge import judge_prompt
from actors.playing.prompts import Past, apply_condition, examples, messages, open_question, open_view, turn_view
from actors.playing.tool_prompts import tool_messages
from envs import SCENARIOS
from envs.bad_lines import Problem, skipped_note
from envs.render import UnreadablePicture
from envs.samples import BadData, is_evaluated, load_samples
from envs.suggestion_pool import with_suggestion_pool
from envs.swapped import with_swapped_pictures
from envs.tool_calls import functions, offered_calls
from envs.types import Mode, Sample, State
from sweeps.conditions import Condition
from sweeps.load import SweepError, find_models, registry
from sweeps.load import build_judge as load_judge
from sweeps.sampling import Sampling
from sweeps.spec import Cell, Judge, ModelSpec, Protocol


def conversation(
    sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int = 0, turn: int = 0, small: bool = False
) -> tuple[Message, ...]:
    """The conversation at a turn; the turns before it are answered with right suggestions.

    Raises BadData when right suggestions end the episode before that turn.
    """
    if condition.picture == "swapped":
        (sample,) = with_swapped_pictures([sample], pool, seed)
    shown = apply_condition(sample, condition, seed)
    game, past = SCENARIOS[sample.scenario], list[Past]()
    state = game.initial(shown, condition.mode, seed)
    while state.turn < turn:
        asks = game.askable(shown, state) if condition.mode is not Mode.REFERENCE else ()
        if not asks:
            raise BadData(f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn} is its last")
        past.append((turn_view(shown, state, condition), asks[0]))
        state, _ = game.step(shown, state, asks[0])
        if state.ending is not None:
            raise BadData(
                f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn - 1} is its last"
            )
    shots = examples(sample, pool, condition, seed, small)
    return messages(shown, turn_view(shown, state, condition), condition, past, shots)


def put(
    sample: Sample,
    pool: Sequence[Sample],
    cell: Cell,
    seed: int = 0,
    turn: int = 0,
    judge: Judge | None = None,
    answer: str = "",
) -> tuple[Message, ...]:
    """Return the messages to the cell's model or, with a judge, to the judge about ``answer``; raises ValueError."""
    if judge is not None:
        return judging(sample, cell, judge, answer, turn)
    if cell.protocol is Protocol.TOOLS:
        return tool_calls(sample, pool, cell, seed, turn)
    if cell.protocol.is_open_ended:
        return open_ended(sample, cell.condition, turn)
    return conversation(sample, pool, cell.condition, seed, turn, cell.model.small_examples)


def named_judge(name: str, answer: str, protocol: Protocol, turn: int) -> Judge | None:
    """The judge that a command line names; raises SweepError where the options do not fit together."""
    if (name or answer) and not protocol.is_open_ended:
        raise SweepError("--judge and --answer are about open-ended answers: add --protocol oeg")
    if protocol is Protocol.OEG and turn:
        raise SweepError(f"open-ended generation has one turn, 0; --turn {turn} asks for another")
    if answer and not name:
        raise SweepError("--answer is what a judge is shown: add --judge NAME, `proactive-sweep ls judges` lists them")
    return load_judge({"model": name}, "the command line") if name else None


def open_ended(sample: Sample, condition: Condition, turn: int = 0) -> tuple[Message, ...]:
    """The one message of open-ended generation: a state's picture and question, without any option; raises BadData."""
    return (open_question(open_view(sample, after(sample, condition, turn), condition)),)


def tool_calls(sample: Sample, pool: Sequence[Sample], cell: Cell, seed: int = 0, turn: int = 0) -> tuple[Message, ...]:
    """The conversation that asks for a function call; functions that travel beside it follow as JSON, a line each."""
    condition, native = cell.condition, cell.model.calls_natively
    if condition.picture == "swapped":
        (sample,) = with_swapped_pictures([sample], pool, seed)
    shown = apply_condition(sample, condition, seed)
    state = after(shown, condition, turn)
    view = turn_view(shown, state, condition)
    known = functions(offered_calls(shown, state, view))
    asked_for = tool_messages(view, known, condition, native)
    beside = "\n".join(json.dumps(function_schema(one), ensure_ascii=False) for one in known)
    return (*asked_for, Message("tools", beside)) if native else asked_for


def after(sample: Sample, condition: Condition, turn: int) -> State:
    """The state at a turn whose earlier ones were answered with suggestions that count; raises BadData where they end it."""
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode)
    while state.turn < turn:
        asks = game.askable(sample, state) if state.ending is None and condition.mode is not Mode.REFERENCE else ()
        if not asks:
            raise BadData(f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn} is its last")
        state, _ = game.step(sample, state, asks[0])
    if state.ending is not None:
        raise BadData(f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {state.turn - 1} is its last")
    return state


def judging(sample: Sample, cell: Cell, judge: Judge, answer: str, turn: int = 0) -> tuple[Message, ...]:
    """Return the messages to a judge about this answer; raises BadData as ``after``, ValueError as ``paper_messages``."""
    if cell.protocol is Protocol.OEG_MULTI:
        state = after(sample, cell.condition, turn)
        return turn_judge.turn_judge_prompt(sample, state, open_view(sample, state, cell.condition), answer)[0]
    return judge_prompt(sample, cell, answer, judge)[0]


def written(conversation: Sequence[Message]) -> str:
    """The conversation as plain text, one block a message."""
    blocks = [
        "\n".join([f"[{message.role}]", *(f"<picture {image.key}>" for image in message.images), message.text])
        for message in conversation
    ]
    return "\n\n".join(blocks)


def find(data: Path, scenario: str, sample_id: int) -> tuple[Sample, list[Sample]]:
    """A sample by id, kept by the filter or not, and the pool its examples are drawn from; raises BadData."""
    bad: list[Problem] = []
    every = load_samples(data, scenario, filtered=False, skipped=bad)
    sample = next((sample for sample in every if sample.id == sample_id), None)
    if sample is None:
        ids = f"ids run from {every[0].id} to {every[-1].id}"
        raise BadData(f"{scenario} has no sample with id {sample_id}; {ids}{skipped_note(bad)}")
    return with_suggestion_pool([sample], data)[0], [other for other in every if is_evaluated(other, filtered=True)]


def templated(model: ModelSpec, conversation: Sequence[Message]) -> str | None:
    """The text after the model's own chat template, or None when the model is not on this disk."""
    if model.backend not in ("vllm", "transformers"):
        return None
    try:
        from actors.engine.hf.template import template_text
    except ModuleNotFoundError:
        return None
    asked_for, tools = beside(conversation)
    return template_text(model, asked_for, tools)


def beside(conversation: Sequence[Message]) -> tuple[Sequence[Message], list[dict[str, Any]]]:
    """The messages of ``tool_calls``, and the functions that travel beside them."""
    if conversation[-1].role != "tools":
        return conversation, []
    return conversation[:-1], [json.loads(line) for line in conversation[-1].text.split("\n")]


ENGINES = ("transformers", "vllm")
"""Backends that make token ids in this process; services make their own."""


def checkpoint(named: str, backend: str = "") -> ModelSpec | None:
    """The entry that a command line gives by a checkpoint's folder or by an engine of its own; None for a name as it stands.

    Raises SweepError for an engine that does not exist, and for a folder without ``config.json``.
    """
    if backend and backend not in ENGINES:
        raise SweepError(f"--backend {backend!r} is none of {' and '.join(ENGINES)}")
    if not named or named in registry() or not Path(named).is_dir():
        return find_models([named])[0].model_copy(update={"backend": backend}) if named and backend else None
    if not (Path(named) / "config.json").is_file():
        raise SweepError(f"--model {named} is a folder without config.json; name the folder of a checkpoint")
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(named).resolve().name).lstrip(".-_+") or "checkpoint"
    return ModelSpec(
        name=name, source=named, backend="vllm" if backend == "vllm" else "transformers", gpus=0, max_images=256
    )


def token_ids(model: ModelSpec, data: Path, conversation: Sequence[Message], sample: Sample) -> dict[str, Any]:
    """Return the engine's tokens for the conversation: ``{"model", "backend", "tokens", "ids"}``.

    Raises SweepError where the engine cannot be had, and BadData where it refuses the prompt or a picture.
    """
    if model.backend not in ENGINES:
        raise SweepError(f"{model.name} runs on {model.backend}, which shows no token ids; {' and '.join(ENGINES)} do")
    if conversation[-1].role == "tools":
        raise SweepError(f"--token-ids are of messages alone; {model.name} is given functions beside them")
    from actors.engine.token_ids import token_ids as made

    view = SCENARIOS[sample.scenario].view(sample, State(0))
    request = Request(tuple(conversation), Sampling(), 0, Situation(sample, State(0), view))
    try:
        ids = asyncio.run(made(model, data, request))
    except (BackendError, UnreadablePicture) as refusal:
        raise BadData(str(refusal)) from None
    except (OSError, ValueError, TypeError, ImportError) as problem:
        raise SweepError(f"{model.name}: {_sentence(problem)}") from None
    return {"model": model.name, "backend": model.backend, "tokens": len(ids), "ids": ids}


def _sentence(problem: Exception) -> str:
    """The first line of an error."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)[:300]
