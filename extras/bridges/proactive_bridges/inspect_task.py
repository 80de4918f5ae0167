"""The game as a task of Inspect: ``inspect eval proactive_sweep/proactivebench -T data=DIR -T scenario=ROD -T condition=hint``.

The solver sends the conversations of ``run`` and reads the replies by its rules; equal replies give equal episodes.
"""

from collections.abc import Iterable
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentText,
    GenerateConfig,
)
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from actors.engine.backend import Message, Reply
from actors.engine.chat_format import data_url
from actors.playing.play import ending_after
from envs.errors import UserError
from envs.render import Renderer
from envs.types import Action, Ending
from proactive_bridges.benchmark import Benchmark
from sweeps.protocol import HEADLINE, ZERO_SHOT
from sweeps.sampling import Sampling

VERSION = 1
"""Raise it when equal replies no longer give equal episodes or scores."""
DECODING = Sampling()
"""That of a sweep: greedy, few tokens."""


def proactivebench(
    data: str = "data/ProactiveBench/test",
    scenario: str = "all",
    condition: str = ZERO_SHOT,
    filtered: bool = True,
    seed: int = 0,
) -> Task:
    """ProactiveBench, multiple choice: does the model ask for a better view, and is it right then?

    Args:
        data: The benchmark folder (`proactive-sweep data fetch DIR`).
        scenario: One or several of ROD, VSOD, MVP-N, IN-C, QD, CIT and COCO, with commas, or all.
        condition: A name that `proactive-sweep ls conditions` prints.
        filtered: Only the samples that the paper evaluates.
        seed: Seed of random moves and examples; equals a sweep's.
    """
    names = scenario if isinstance(scenario, str) else ",".join(scenario)  # the command line splits at commas
    try:
        benchmark = Benchmark(Path(data), "all" if names == "all" else names.split(","), condition, filtered, seed)
    except UserError as mistake:
        raise SystemExit(str(mistake)) from None
    is_score = (names, condition, filtered) == ("all", ZERO_SHOT, True)
    return Task(
        MemoryDataset(list(_samples(benchmark)), "ProactiveBench", data),
        solver=play_game(benchmark, Renderer(Path(data))),
        scorer=score_game(),
        config=GenerateConfig(temperature=DECODING.temperature, max_tokens=DECODING.max_tokens, seed=seed),
        fail_on_error=False,  # a picture that a service refuses is an error with its own count, and no zero
        version=VERSION,
        metadata={"score": HEADLINE if is_score else "an extension", "condition": condition, "filtered": filtered},
    )


# Inspect puts the package of the function before the name, if it finds one; the name here is whole
proactivebench.__module__ = "builtins"
proactivebench = task(name="proactive_sweep/proactivebench")(proactivebench)


def _samples(benchmark: Benchmark) -> Iterable[Sample]:
    for scenario, samples in benchmark.samples.items():
        for number, sample in samples.items():
            question = benchmark.episode(scenario, number).conversation[-1].text
            metadata = {"scenario": scenario, "sample": number}
            yield Sample(question, target=sample.answer, id=f"{scenario}-{number:04d}", metadata=metadata)


@solver
def play_game(benchmark: Benchmark, renderer: Renderer) -> Solver:
    """Play a sample to its end; the metadata keep the ending, and each turn with what was read in its reply."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        episode = benchmark.episode(state.metadata["scenario"], state.metadata["sample"])
        transcript: list[ChatMessage] = []
        ending: Ending | None = None
        while ending is None:
            state.messages = [_chat_message(message, renderer) for message in episode.conversation]
            state.messages[-1].metadata = {"turn": len(episode.turns), **state.metadata}
            transcript.append(state.messages[-1])
            state = await generate(state)
            reply = state.output.completion
            episode.answer(reply)
            transcript.append(state.messages[-1])
            cut = Reply(reply, finish="length" if state.output.stop_reason == "max_tokens" else "")
            ending = ending_after(episode.state, cut)
        state.messages = transcript
        state.metadata["ending"] = ending.value
        state.metadata["turns"] = [
            {"frame": turn.frame, "option": turn.option.value, "category": turn.category.value,
             "action": turn.action.value, "move": turn.move.value if turn.move else None}
            for turn in episode.turns
        ]  # fmt: skip
        return state

    return solve


@scorer(metrics={"*": [grouped(mean(), "scenario", all="groups", all_label="mean"), stderr()]})
def score_game() -> Scorer:
    """Score an episode: ended right, asked at all, number of suggestions."""

    async def score(state: TaskState, target: Target) -> Score:
        ending, turns = state.metadata["ending"], state.metadata["turns"]
        asks = [turn for turn in turns if turn["action"] == Action.SUGGESTION]
        value = {"correct": float(ending == Ending.CORRECT), "asked": float(bool(asks)), "suggestions": len(turns) - 1}
        explanation = f"The episode ended as {ending!r} after {len(turns)} turns."
        return Score(value=value, answer=state.output.completion, explanation=explanation)

    return score


def _chat_message(message: Message, renderer: Renderer) -> ChatMessage:
    if message.role == "system":
        return ChatMessageSystem(content=message.text)
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.text)
    pictures: list[Content] = [ContentImage(image=data_url(renderer.picture(image))) for image in message.images]
    return ChatMessageUser(content=[*pictures, ContentText(text=message.text)] if pictures else message.text)
