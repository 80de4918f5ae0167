"""The game as a verifiers v1 taskset, with the harness that plays it: each sample is a task, the reward is a right ending.

The harness sends the conversations that ``run`` sends (a fresh one each turn, but where the condition keeps earlier turns), and
the reward replays the replies of the trace through the rules: it needs nothing but the trace and the benchmark folder.
"""

from __future__ import annotations

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
from orchestrator.environments.benchmark import Benchmark, InteractiveEpisode
from sweeps.protocol import ZERO_SHOT

__all__ = ["ProactiveEnv", "ProactiveHarness", "ProactiveTaskset"]


class ProactiveConfig(vf.TasksetConfig):
    """``--env.taskset.*``"""

    data: str = "demo-data"
    """The benchmark folder (`proactive-sweep data demo`, `data fetch`)."""
    scenarios: list[str] = []
    """Short names; none means all seven."""
    condition: str = ZERO_SHOT
    filtered: bool = True
    """Only the samples that the paper evaluates."""
    benchmark_seed: int = 0
    """A sweep's ``seed``: of random moves, disguises and examples."""


class ProactiveData(vf.TaskData):
    """Which sample it is, and where from; the prompt is its first question as text."""

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
        """1 where the episode ended with the right category, else 0, an unfinished one too."""
        return float(replayed(self.data, trace).ending is Ending.CORRECT)

    @vf.metric
    async def suggestions(self, trace: vf.Trace) -> float:
        """Answers that asked for something."""
        return float(sum(turn.action is Action.SUGGESTION for turn in replayed(self.data, trace).turns))

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """Answers in all."""
        return float(len(replayed(self.data, trace).turns))


class ProactiveTaskset(vf.Taskset[ProactiveTask, ProactiveConfig]):
    """The samples of a benchmark folder, scenario by scenario, in file order."""

    def load(self) -> Iterator[ProactiveTask]:
        """One task a sample; raises BadData or SweepError with one sentence."""
        settings = self.config
        names = tuple(settings.scenarios) or "all"
        origin = {name: getattr(settings, name) for name in ("data", "condition", "filtered", "benchmark_seed")}
        benchmark = Benchmark(
            Path(settings.data), names, settings.condition, settings.filtered, settings.benchmark_seed
        )
        for scenario, samples in benchmark.samples.items():
            for sample in samples:
                name, first = f"{scenario}-{sample:04d}", benchmark.episode(scenario, sample).conversation[-1].text
                task_data = ProactiveData(id=name, name=name, prompt=first, scenario=scenario, sample=sample, **origin)
                yield ProactiveTask(task_data, settings.task)


class ProactiveHarnessConfig(vf.HarnessConfig):
    """Nothing but what every harness has."""


class ProactiveHarness(vf.Harness[ProactiveHarnessConfig]):
    """Plays an episode in this process: every turn is a chat completion of the model, pictures included."""

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
        """Ask until the game ends or verifiers does (a turn limit, a ``@stop``)."""
        episode, pictures = opened(data), Renderer(Path(data.data))
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=endpoint, headers=headers, timeout=None) as client:
            while episode.ending is None:
                body = {"model": ctx.model, "messages": _sent(episode.conversation, pictures)}
                answer = await client.post("chat/completions", json=body)
                if trace.stop_condition is not None:
                    break
                if answer.is_error:
                    return vf.ProgramResult(
                        1, "", f"the model's service said {answer.status_code}: {answer.text[:500]}"
                    )
                episode.answer(answer.json()["choices"][0]["message"].get("content") or "")
        return vf.ProgramResult(0, "", "")


class ProactiveEnvConfig(vf.EnvConfig):
    """One seat, played in this process: nothing that a model says is executed."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class ProactiveEnv(vf.Env[ProactiveEnvConfig]):
    """One model plays one sample."""

    async def run(self, task: ProactiveTask, agents: vf.Agents) -> None:
        """The harness plays it all."""
        await agents.agent.run(task)


def opened(data: ProactiveData) -> InteractiveEpisode:
    """A new episode of a task's sample; raises BadData or SweepError."""
    selection = (data.data, data.scenario, data.condition, data.filtered, data.benchmark_seed)
    return _benchmark(*selection).episode(data.scenario, data.sample)


def replayed(data: ProactiveData, trace: vf.Trace) -> InteractiveEpisode:
    """The episode that the model's replies in a trace make; what was said after its ending counts for nothing."""
    episode = opened(data)
    for call in trace.calls:
        if call.node is not None and episode.ending is None:
            episode.answer(trace.nodes[call.node].message.content or "")
    return episode


@lru_cache(maxsize=16)
def _benchmark(data: str, scenario: str, condition: str, filtered: bool, seed: int) -> Benchmark:
    return Benchmark(Path(data), [scenario], condition, filtered, seed)


def _sent(messages: tuple[Message, ...], pictures: Renderer) -> list[dict[str, Any]]:
    """A conversation as OpenAI's chat completions take it."""

    def part(image: ImageRef) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": data_url(pictures.picture(image))}}

    return list(conversation(messages, part, plain=True))
