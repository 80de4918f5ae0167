"""How far vLLM's scores of replies are from transformers', in float32, over every way of naming an option.

``python -m tests.actors.engine.vllm.scoring_agreement [STATES] [MODEL ...]`` measures the embedded model, a random picture model
and a random language model; the last two spell an option in up to a hundred tokens.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from actors.engine.backend import ReplyScore, Request
from actors.engine.registry import open_engine
from envs import SCENARIOS
from envs.samples import load_samples
from proactive_demo.drawing import draw
from proactive_operating.option_scores import readable_forms
from proactive_operating.rules import EveryState
from proactive_operating.state_graph import Question
from sweeps.conditions import VARIANTS
from sweeps.registry import registry
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec
from tests.actors.tiny import checkpoint, text_only

ON_CPU = {"enforce_eager": True, "max_model_len": 1024, "block_size": 32}
EVERY_STATE = VARIANTS["every-state"]
NAMES = ("embedded", "pictures", "text")


class Agreement(NamedTuple):
    """The largest differences between the scores of two engines."""

    states: int
    replies: int
    log_probability: float
    probability: float
    """Of one reply."""
    greedy: int
    """Replies that only one engine writes by greedy decoding."""


def make_model(name: str, folder: Path) -> ModelSpec:
    """Return one of ``NAMES`` as an entry, in float32."""
    if name == "embedded":
        return registry()[name]
    source = (checkpoint if name == "pictures" else text_only)(folder / name)
    limits = () if name == "pictures" else ("no pictures",)
    return ModelSpec(name=name, source=str(source), gpus=0, dtype="float32", limits=limits)


def posed_questions(model: ModelSpec, data: Path, states: int) -> list[tuple[Request, list[str]]]:
    """Return so many questions, taken from the scenarios in turn, with every reply that names one of their options."""
    condition = EVERY_STATE.model_copy(update={"picture": "none"} if "no pictures" in model.limits else {})

    def of_scenario(name: str) -> Iterator[tuple[Request, list[str]]]:
        for sample in load_samples(data, name):
            rules = EveryState(sample, condition, 0)
            for state in rules.states:
                prompt = rules.pose(state, ())
                question = Question(state, prompt.situation.view)
                forms = [form for form, _ in readable_forms(question, sample, condition)]
                yield Request(prompt.messages, Sampling(), 1, prompt.situation), forms

    streams = [of_scenario(name) for name in SCENARIOS]
    taken = (next(stream, None) for stream in cycle(streams))
    return list(islice(filter(None, islice(taken, 100 * states)), states))


def score_all(
    model: ModelSpec, data: Path, questions: Sequence[tuple[Request, list[str]]], thought: str
) -> list[tuple[ReplyScore, ...]]:
    """Return the scores of each question's replies after a thought."""

    async def ask() -> list[tuple[ReplyScore, ...]]:
        engine = open_engine(model, data)
        try:
            return [(await engine.option_log_probabilities(*question, thought)).scores for question in questions]
        finally:
            await engine.close()

    return asyncio.run(ask())


def compare(name: str, data: Path, folder: Path, states: int, thought: str = "") -> Agreement:
    """Return the largest differences of a model between transformers and vLLM."""
    model = make_model(name, folder)
    questions = posed_questions(model, data, states)
    expected, actual = (
        score_all(model.model_copy(update={"backend": backend, "options": options}), data, questions, thought)
        for backend, options in (("transformers", {}), ("vllm", ON_CPU))
    )
    pairs = [pair for two in zip(expected, actual, strict=True) for pair in zip(*two, strict=True)]
    return Agreement(
        len(questions),
        len(pairs),
        max(abs(one.log_probability - other.log_probability) for one, other in pairs),
        max(abs(exp(one.log_probability) - exp(other.log_probability)) for one, other in pairs),
        sum(one.greedy != other.greedy for one, other in pairs),
    )


def main() -> None:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    states = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with TemporaryDirectory() as folder:
        draw(Path(folder) / "data", samples=140, seed=0)
        for name in sys.argv[2:] or NAMES:
            result = compare(name, Path(folder) / "data", Path(folder), states)
            print(
                f"{name}: {result.replies} replies at {result.states} states; largest difference of a log-probability "
                f"{result.log_probability:.1e}, of a probability {result.probability:.1e}; {result.greedy} greedy replies differ",
                flush=True,
            )


if __name__ == "__main__":
    main()
