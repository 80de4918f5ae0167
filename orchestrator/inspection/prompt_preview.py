"""What a model or judge is asked, before a run: the episode loop poses it to a policy that asks at every turn.

No picture is opened and no model is loaded; ``models try --prompt`` and the bounds of ``plan`` read the same requests.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from actors.engine.backend import Message, Request
from actors.engine.chat_format import function_schema
from actors.playing.episode_runner import EpisodeRunner
from actors.playing.judge import TurnJudge, judge_prompt
from actors.trial.certify import Recorder
from envs.foreign_suggestions import folder_suggestions, with_swapped_pictures
from envs.samples import BadData, is_evaluated, load_samples
from envs.types import Sample
from orchestrator.planning.plan import Plan
from sweeps.load import SweepError
from sweeps.load import build_judge as load_judge
from sweeps.spec import Cell, Judge, ModelSpec, Protocol

NO_LIMIT = 1 << 20
"""More turns than any episode has."""
SAMPLE_ANSWER = "(the model's answer)"
"""Stands for the answer in the input of a judge."""


def pose(sample: Sample, pool: Sequence[Sample], cell: Cell, seed: int = 0) -> tuple[list[Request], list[Request]]:
    """Play a sample by the policy ``ask-properly``; return its requests, and those to the judge that reads each turn, if any.

    Raises ValueError if it cannot be posed.
    """
    model, judge = Recorder("ask-properly", NO_LIMIT), Recorder("rule-judge", NO_LIMIT)
    model.scores_replies = True
    if cell.condition.picture == "swapped" and sample.swapped is None:
        (sample,) = with_swapped_pictures([sample], pool, seed)
    unlimited = cell.model_copy(update={"model": cell.model.model_copy(update={"max_images": None})})
    reader = TurnJudge(load_judge({"model": "rule-judge"}, ""), judge) if cell.protocol is Protocol.OEG_MULTI else None
    samples, pools = {sample.scenario: (sample,)}, {sample.scenario: tuple(pool) if cell.condition.shots else ()}
    runner = EpisodeRunner(Plan((unlimited,), samples, pools, seed, samples), {cell.model.name: model}, 1, reader)
    asyncio.run(runner.play_episode(0))
    return [*chain.from_iterable(model.requests.values())], [*chain.from_iterable(judge.requests.values())]


def pose_some(plan: Plan, cell: Cell, most: int) -> list[list[Request]]:
    """Return the requests of at most so many evenly spaced samples of a cell; raises ValueError as ``pose`` does."""
    samples, pool = plan.cell_samples(cell), plan.pools.get(cell.scenario, ())
    return [pose(sample, pool, cell, plan.seed)[0] for sample in samples[:: max(1, -(-len(samples) // most))]]


def find_request(
    sample: Sample, pool: Sequence[Sample], cell: Cell, turn: int = 0, judge: Judge | None = None, seed: int = 0
) -> Request:
    """Return the request at a turn, to the model or to its judge; raises BadData if the episode has no such turn."""
    if judge is not None and cell.protocol is Protocol.OEG:
        messages, situation, _ = judge_prompt(sample, cell, SAMPLE_ANSWER, judge)
        return Request(messages, judge.sampling, 0, situation)
    to_model, to_judge = pose(sample, pool, cell, seed)
    requests = to_model if judge is None else to_judge
    if turn >= len(requests):
        last = len(requests) - 1
        raise BadData(f"sample {sample.id} of {sample.scenario} has no turn {turn}: turn {last} is its last")
    return requests[turn]


def find_judge(name: str, protocol: Protocol, turn: int) -> Judge | None:
    """Return the judge of the command line; raise SweepError for options that do not fit together."""
    if name and not protocol.is_open_ended:
        raise SweepError("--judge reads open-ended answers: end the condition of --prompt with -oeg")
    if protocol is Protocol.OEG and turn:
        raise SweepError(f"open-ended generation has one turn, 0, not {turn}")
    return load_judge({"model": name}, "the command line") if name else None


def shown_messages(request: Request) -> tuple[Message, ...]:
    """Return the messages of a request; functions that are sent apart follow in a message ``tools``, one JSON line each."""
    schemas = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in map(function_schema, request.tools))
    return (*request.messages, Message("tools", schemas)) if schemas else request.messages


def format_messages(messages: Sequence[Message]) -> str:
    """Return messages as plain text, one block each."""
    blocks = ((f"[{m.role}]", *(f"<picture {image.key}>" for image in m.images), m.text) for m in messages)
    return "\n\n".join(map("\n".join, blocks))


def find_sample(data: Path, scenario: str, sample_id: int) -> tuple[Sample, list[Sample]]:
    """Return a sample by id, including filtered ones, and the pool of its examples; raises BadData."""
    samples = load_samples(data, scenario, filtered=False, skip_bad=True)
    sample = next((sample for sample in samples if sample.id == sample_id), None)
    if sample is None:
        ids = [sample.id for sample in samples]
        raise BadData(f"{scenario} has no sample with id {sample_id}; ids run from {min(ids)} to {max(ids)}")
    pool = [other for other in samples if is_evaluated(other, filtered=True)]
    return replace(sample, suggestion_pool=folder_suggestions(data)), pool


def apply_chat_template(model: ModelSpec, request: Request) -> str | None:
    """Return the text of the model's chat template; None if no template of it can be loaded here."""
    if not model.is_local:
        return None
    try:
        from actors.engine.hf.template import template_text
    except ModuleNotFoundError:
        return None
    return template_text(model, request.messages, list(map(function_schema, request.tools)))
