"""The game as a verifiers v1 taskset and the harness that plays it: a task per sample, reward 1 for a correct ending.

The harness sends the same conversations as ``proactive-sweep run``. The reward replays the trace's replies through the rules,
so it needs only the trace and the benchmark folder.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf

from actors.engine.backend import Message
from actors.engine.chat_format import conversation, data_url
from envs.render import Renderer
from envs.types import Action, Ending, ImageRef
from proactive_bridges.benchmark import Benchmark, InteractiveEpisode
from sweeps.protocol import ZERO_SHOT

__all__ = ["ProactiveEnv", "ProactiveHarness", "ProactiveTaskset"]


class ProactiveConfig(vf.TasksetConfig):
    """The options ``--env.taskset.*``."""

    data: str = "demo-data"
    """The benchmark folder (`proactive-sweep data demo`, `data fetch`)."""
    scenarios: list[str] = []
    """Short names; an empty list means all seven."""
    condition: str = ZERO_SHOT
    filtered: bool = True
    """Only the samples that the paper evaluates."""
    benchmark_seed: int = 0
    """Seed of random moves, disguises and examples; equals a sweep's ``seed``."""


class ProactiveData(vf.TaskData):
    """The sample of a task and its origin; the prompt is its first question as text."""

    data: str
    scenario: str
    sample: int
    condition: str
    filtered: bool
    benchmark_seed: int


class ProactiveTask(vf.Task[ProactiveData, vf.State, vf.TaskConfig]):
    """One sample."""

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        """Return 1 if the episode ended with the correct category; 0 for any other ending and for an unfinished episode."""
        return float(replay(self.data, trace).ending is Ending.CORRECT)

    @vf.metric
    async def suggestions(self, trace: vf.Trace) -> float:
        """Return the number of suggestions."""
        return float(sum(turn.action is Action.SUGGESTION for turn in replay(self.data, trace).turns))

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """Return the number of replies up to the ending."""
        return float(len(replay(self.data, trace).turns))


class ProactiveTaskset(vf.Taskset[ProactiveTask, ProactiveConfig]):
    """The samples of a benchmark folder, scenario by scenario, in file order."""

    def load(self) -> Iterator[ProactiveTask]:
        settings = self.config
        origin = {name: getattr(settings, name) for name in ("data", "condition", "filtered", "benchmark_seed")}
        names = tuple(settings.scenarios) or "all"
        benchmark = Benchmark(
            Path(settings.data), names, settings.condition, settings.filtered, settings.benchmark_seed
        )
        for scenario, samples in benchmark.samples.items():
            for sample in samples:
                name, question = f"{scenario}-{sample:04d}", benchmark.episode(scenario, sample).conversation[-1].text
                task_data = ProactiveData(
                    id=name, name=name, prompt=question, scenario=scenario, sample=sample, **origin
                )
                yield ProactiveTask(task_data, settings.task)


class ProactiveHarnessConfig(vf.HarnessConfig):
    """The options of every harness, and no others."""


class ProactiveHarness(vf.Harness[ProactiveHarnessConfig]):
    """Plays an episode in this process: each turn is a chat completion of the model, with pictures."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: Mapping[str, str],
        data: ProactiveData,
    ) -> vf.ProgramResult:
        """Play until the game ends or verifiers stops it (a turn limit, a ``@stop``)."""
        episode, renderer = start_episode(data), Renderer(Path(data.data))
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=endpoint, headers=headers, timeout=None) as client:
            while episode.ending is None:
                body = {"model": ctx.model, "messages": _chat_messages(episode.conversation, renderer)}
                response = await client.post("chat/completions", json=body)
                if trace.stop_condition is not None:
                    break
                if response.is_error:
                    error = f"the model's service answered {response.status_code}: {response.text[:500]}"
                    return vf.ProgramResult(1, "", error)
                episode.answer(response.json()["choices"][0]["message"].get("content") or "")
        return vf.ProgramResult(0, "", "")


class ProactiveEnvConfig(vf.EnvConfig):
    """One agent in this process; the model's text is never executed."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class ProactiveEnv(vf.Env[ProactiveEnvConfig]):
    """One model plays one sample."""

    async def run(self, task: ProactiveTask, agents: vf.Agents) -> None:
        await agents.agent.run(task)


def start_episode(data: ProactiveData) -> InteractiveEpisode:
    """Start an episode of a task's sample; raises BadData or SweepError."""
    benchmark = _load_benchmark(data.data, data.scenario, data.condition, data.filtered, data.benchmark_seed)
    return benchmark.episode(data.scenario, data.sample)


def replay(data: ProactiveData, trace: vf.Trace) -> InteractiveEpisode:
    """Replay the model's replies of a trace and return the episode; replies after its ending are ignored."""
    episode = start_episode(data)
    for call in trace.calls:
        if call.node is not None and episode.ending is None:
            episode.answer(trace.nodes[call.node].message.content or "")
    return episode


@lru_cache(maxsize=16)
def _load_benchmark(data: str, scenario: str, condition: str, filtered: bool, seed: int) -> Benchmark:
    return Benchmark(Path(data), [scenario], condition, filtered, seed)


def _chat_messages(messages: tuple[Message, ...], renderer: Renderer) -> list[dict[str, Any]]:
    """Return a conversation in OpenAI's format of chat completions."""

    def encode_image(image: ImageRef) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": data_url(renderer.picture(image))}}

    return list(conversation(messages, encode_image, plain=True))
