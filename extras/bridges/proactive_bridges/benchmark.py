"""A benchmark folder under one condition, and episodes of it that a caller plays answer by answer.

Samples, conversations, seeds and transitions equal those of ``run``: equal replies replay to equal episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.engine.backend import Message
from actors.playing.episode_rules import MultipleChoice
from actors.playing.prompts import Past, apply_condition, examples
from envs.types import NO_PICTURE, Ending, ImageRef, Sample, Turn, View
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import build
from sweeps.protocol import ZERO_SHOT
from sweeps.sweep_file import SweepError

ORIGIN = "the environment"
"""Where a wrong name comes from, in error messages."""


class Benchmark:
    """The samples of some scenarios under one condition: the plan of a sweep that a caller plays in place of a model."""

    def __init__(
        self,
        data: Path,
        scenarios: Sequence[str] | str = "all",
        condition: str = ZERO_SHOT,
        filtered: bool = True,
        seed: int = 0,
    ) -> None:
        """``data`` is the benchmark folder; ``seed`` equals a sweep's ``seed``. Raises BadData or SweepError."""
        table: dict[str, Any] = {"data": str(data), "scenarios": scenarios, "seed": seed, "models": ["oracle"]}
        sweep = build(table | {"conditions": [condition], "selection": {"filtered": filtered}}, ORIGIN)
        if sweep.conditions[0].rules:
            unit = "picture" if sweep.conditions[0].every_frame else "state"
            raise SweepError(f"{ORIGIN}: {condition} asks about every {unit} and is no game; name another condition")
        self.plan = build_plan(sweep)
        self.samples: Mapping[str, Mapping[int, Sample]] = self.plan.samples_by_id

    def samples_of(self, scenario: str) -> Mapping[int, Sample]:
        """Return the samples of a scenario by id; raises SweepError if the scenario is not loaded."""
        if scenario not in self.samples:
            raise SweepError(f"{ORIGIN}: scenario {scenario!r} is not loaded; choose from {', '.join(self.samples)}")
        return self.samples[scenario]

    def episode(self, scenario: str, sample: int) -> InteractiveEpisode:
        """Start an episode of one sample; raises SweepError if there is no sample with that id."""
        samples = self.samples_of(scenario)
        if sample not in samples:
            raise SweepError(f"{ORIGIN}: {scenario} has no sample with id {sample!r} in this selection")
        return InteractiveEpisode(samples[sample], self.plan)


class InteractiveEpisode:
    """One sample under one condition, answered from outside; the rules are those of ``actors.playing.play``."""

    def __init__(self, sample: Sample, plan: Plan) -> None:
        condition, pool = plan.cells[0].condition, plan.pools[sample.scenario]
        self.rules = MultipleChoice(
            apply_condition(sample, condition, plan.seed), condition, plan.episode_seed(sample, condition),
            examples(sample, pool, condition, plan.seed),
        )  # fmt: skip
        self.sample, self.state = self.rules.sample, self.rules.initial()
        self.turns: list[Turn] = []
        self.past: list[Past] = []
        self.prompt = self.rules.pose(self.state, self.past)
        """The open question; after the ending, the last question."""

    @property
    def ending(self) -> Ending | None:
        """How the episode ended; None while it is running."""
        return self.state.ending

    @property
    def view(self) -> View:
        return self.prompt.situation.view

    @property
    def choices(self) -> tuple[str, ...]:
        """Suggestions, abstention and categories, in the order of their letters."""
        return self.view.options + self.view.categories

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages that a model is sent now; the last one is the question."""
        return self.prompt.messages

    @property
    def image(self) -> ImageRef | None:
        """The picture of the question, at the size at which a model sees it; None if the condition shows none."""
        return None if self.prompt.image == NO_PICTURE else self.prompt.image

    def answer(self, reply: str) -> Turn:
        """Answer the open question and return the turn. Raises ValueError after the ending."""
        self.state, turn = self.rules.step(self.state, reply)
        self.turns.append(turn)
        if self.ending is None:
            self.past.append((self.view, reply))
            self.prompt = self.rules.pose(self.state, self.past)
        return turn
