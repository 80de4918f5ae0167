"""A benchmark folder under one condition, and single episodes of it that somebody else plays, answer by answer.

The same samples, conversations, seeds and transitions as ``run``: equal replies replay to equal episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from actors.backend import Message
from actors.prompts import Past, examples, messages, posed, staged
from envs import SCENARIOS
from envs.chance import episode_seed
from envs.lenient import forgiven
from envs.samples import load
from envs.suggestion_pool import with_known
from envs.swapped import with_swapped
from envs.types import Ending, ImageRef, Mode, Sample, Turn, View
from sweeps.conditions import Condition
from sweeps.load import one_cell, scenarios_named
from sweeps.sweep_file import SweepError

WHERE = "the environment"
"""What errors name as the place of a wrong name."""


class Benchmark:
    """The samples of some scenarios, as a condition shows them."""

    def __init__(
        self,
        data: Path,
        scenarios: Sequence[str] | str = "all",
        condition: str | Condition = "zero-shot",
        filtered: bool = True,
        seed: int = 0,
    ) -> None:
        """``data`` is the benchmark folder; ``seed`` a sweep's. Raises BadData or SweepError with one sentence."""
        names = scenarios_named(scenarios if isinstance(scenarios, str) else list(scenarios), WHERE)
        named = one_cell(names[0], condition).condition if isinstance(condition, str) else condition
        if named.every_frame:
            raise SweepError(f"{WHERE}: {named.name} asks about every picture and is no game; name another condition")
        self.condition, self.seed = named, seed
        self.samples: Mapping[str, Mapping[int, Sample]] = {
            name: {sample.id: sample for sample in _loaded(Path(data), name, named, filtered, seed)} for name in names
        }

    def of(self, scenario: str) -> Mapping[int, Sample]:
        """The samples of a scenario by id; raises SweepError where it is not played."""
        if scenario not in self.samples:
            raise SweepError(f"{WHERE}: scenario {scenario!r} is not here; there are {', '.join(self.samples)}")
        return self.samples[scenario]

    def episode(self, scenario: str, sample: int) -> Episode:
        """A new episode of one sample; raises SweepError where there is none of that id."""
        samples = self.of(scenario)
        if sample not in samples:
            raise SweepError(f"{WHERE}: {scenario} has no sample with id {sample!r} in this selection")
        return Episode(samples[sample], tuple(samples.values()), self.condition, self.seed)


class Episode:
    """One sample under one condition, from the first question to its ending."""

    def __init__(self, sample: Sample, pool: Sequence[Sample], condition: Condition, seed: int) -> None:
        self.sample, self.pool, self.condition, self.seed = staged(sample, condition, seed), pool, condition, seed
        purpose = f"episode-{condition.draw}" if condition.draw else "episode"
        self.game = SCENARIOS[sample.scenario]
        self.state = self.game.initial(
            self.sample, condition.mode, episode_seed(seed, sample.scenario, sample.id, purpose)
        )
        self.turns: list[Turn] = []
        """What the game made of each answer so far."""
        self.past: list[Past] = []
        """Earlier turns, where the condition keeps them in the conversation."""
        self.view: View = posed(self.sample, self.state, condition)
        """What is shown now; after the ending, what was shown last."""

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it goes on."""
        return self.state.ending

    @property
    def shown(self) -> tuple[str, ...]:
        """The options shown now, suggestions and abstention before categories: in the order of their letters."""
        return self.view.options + self.view.categories

    @cached_property
    def examples(self) -> tuple[Message, ...]:
        """The solved examples of other samples, where the condition has some."""
        return examples(self.sample, self.pool, self.condition, self.seed)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """What a model is sent now: the question last."""
        return messages(self.sample, self.view, self.condition, self.past, self.examples)

    @property
    def image(self) -> ImageRef | None:
        """The picture of the question, at the size at which a model sees it; None where none is shown."""
        return next(iter(self.conversation[-1].images), None)

    def answer(self, reply: str) -> Turn:
        """Take a reply to what is shown; what the game made of it. Raises ValueError after the ending."""
        read = forgiven(self.sample, self.state, reply) if self.condition.lenient else reply
        self.state, turn = self.game.step(self.sample, self.state, read)
        self.turns.append(turn)
        if self.ending is None:
            if self.condition.history:
                self.past.append((self.view, reply))
            self.view = posed(self.sample, self.state, self.condition)
        return turn


def _loaded(data: Path, name: str, condition: Condition, filtered: bool, seed: int) -> list[Sample]:
    found = load(data, name, filtered)
    if condition.mode is Mode.RANDOM:
        found = with_known(found, data)
    return with_swapped(found, found, seed) if condition.picture == "swapped" else found
