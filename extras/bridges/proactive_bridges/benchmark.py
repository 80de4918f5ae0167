"""A benchmark folder under one condition, and episodes of it that a caller plays answer by answer.

Samples, conversations, seeds and transitions equal those of ``run``: equal replies replay to equal episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from actors.engine.backend import Message
from actors.playing.episode_rules import MultipleChoice
from actors.playing.prompts import Past, apply_condition, examples
from envs.chance import episode_seed
from envs.foreign_suggestions import folder_suggestions, with_swapped_pictures
from envs.samples import load_samples, read_samples
from envs.types import NO_PICTURE, Ending, ImageRef, Mode, Sample, Turn, View
from sweeps.conditions import Condition
from sweeps.load import build_cell
from sweeps.packages import find_scenarios
from sweeps.protocol import ZERO_SHOT
from sweeps.sweep_file import SweepError

ORIGIN = "the environment"
"""Where a wrong name comes from, in error messages."""


class Benchmark:
    """The samples of some scenarios under one condition."""

    def __init__(
        self,
        data: Path,
        scenarios: Sequence[str] | str = "all",
        condition: str | Condition = ZERO_SHOT,
        filtered: bool = True,
        seed: int = 0,
    ) -> None:
        """``data`` is the benchmark folder; ``seed`` equals a sweep's ``seed``. Raises BadData or SweepError."""
        names = find_scenarios(scenarios if isinstance(scenarios, str) else list(scenarios), ORIGIN)
        if isinstance(condition, str):
            condition = build_cell(names[0], condition).condition
        if condition.unscored:
            unit = "picture" if condition.every_frame else "state"
            raise SweepError(
                f"{ORIGIN}: {condition.name} asks about every {unit} and is no game; name another condition"
            )
        self.condition, self.seed = condition, seed
        read = cache(read_samples)
        loaded = {name: load_samples(Path(data), name, filtered, read=read) for name in names}
        if condition.mode is Mode.RANDOM:
            pool = folder_suggestions(Path(data), read)
            loaded = {name: [replace(s, suggestion_pool=pool) for s in own] for name, own in loaded.items()}
        if condition.picture == "swapped":
            loaded = {name: with_swapped_pictures(samples, samples, seed) for name, samples in loaded.items()}
        self.samples: Mapping[str, Mapping[int, Sample]] = {
            name: {sample.id: sample for sample in samples} for name, samples in loaded.items()
        }

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
        return InteractiveEpisode(samples[sample], tuple(samples.values()), self.condition, self.seed)


class InteractiveEpisode:
    """One sample under one condition, answered from outside; the rules are those of ``actors.playing.play``."""

    def __init__(self, sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int) -> None:
        purpose = f"episode-{condition.draw}" if condition.draw else "episode"
        self.rules = MultipleChoice(
            apply_condition(sample, condition, seed), condition, episode_seed(seed, sample.scenario, sample.id, purpose),
            examples(sample, pool, condition, seed),
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
