"""The states that are learnt from: views of the game on the path of a player who asks until the answer can be known.

A state's reward is the game's own verdict on a reply to it; no state shows a picture that the benchmark is scored on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.engine.backend import Message, Request, Situation
from actors.engine.batching import Job
from actors.playing import prompts
from envs import SCENARIOS
from envs.render import Fit, Renderer, UnreadablePicture
from envs.samples import limit_samples, load_samples
from envs.types import Action, Ending, Sample, State, Verdict
from orchestrator.learning.settings import States, TrainError
from sweeps.sampling import Sampling
from sweeps.spec import Sweep

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("hidden", "middle", "clear")


class SampledReply(NamedTuple):
    """One sampled reply."""

    tokens: tuple[int, ...]
    """With the end token where there was one."""
    logprob: float
    """Sum of the log-probabilities of its tokens at temperature 1, given the question it was sampled from."""


@dataclass(frozen=True, slots=True)
class ReplyOutcome:
    """The game's verdict on one reply."""

    action: Action
    right: bool
    """The right category, where it counted."""
    asked: bool
    """A valid suggestion."""
    after: State | None = None
    """The next state where the episode goes on."""

    def reward(self, suggestion: float) -> float:
        """1 for the right category, ``suggestion`` (the paper's rp) for a valid suggestion, else 0 (paper, section 5)."""
        return 1.0 if self.right else suggestion if self.asked else 0.0


class TrainingState(Protocol):
    """One question that can be asked, with or without its hint, and the verdict on replies to it."""

    @property
    def key(self) -> str:
        """Names the state: scenario, sample and turn."""
        ...

    @property
    def scenario(self) -> str: ...

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        ...

    @property
    def solution(self) -> str:
        """A right reply."""
        ...

    def job(self, hint: bool = False) -> Job:
        """The question as an engine takes it, pictures included; raises TrainError for one that is unreadable."""
        ...

    def read(self, reply: str) -> ReplyOutcome:
        """The verdict on a reply."""
        ...


@dataclass(frozen=True)
class GameState:
    """A state of an episode of a sample."""

    sample: Sample
    state: State
    kind: str
    renderer: Renderer

    @property
    def key(self) -> str:
        return f"{self.sample.scenario}/{self.sample.id}/{self.state.turn}"

    @property
    def scenario(self) -> str:
        return self.sample.scenario

    @cached_property
    def solution(self) -> str:
        return SCENARIOS[self.scenario].solve(self.sample, self.state)

    def job(self, hint: bool = False) -> Job:
        view = SCENARIOS[self.scenario].view(self.sample, self.state, hint)
        try:
            picture = self.renderer.picture(view.image)
        except UnreadablePicture as bad:
            raise TrainError(
                f"{self.key} cannot be shown: {bad}; `proactive-sweep data check` lists every bad picture"
            ) from None
        return job_of(
            (prompts.question_message(view),), {view.image: picture}, Situation(self.sample, self.state, view)
        )

    def read(self, reply: str) -> ReplyOutcome:
        after, turn = SCENARIOS[self.scenario].step(self.sample, self.state, reply)
        right, suggested = after.ending is Ending.CORRECT, turn.option is Verdict.CORRECT
        return ReplyOutcome(turn.action, right, suggested and not right, after if after.ending is None else None)

    def next(self, after: State) -> GameState:
        """The state that a reply led to; its kind is that of its place on the path."""
        clear = SCENARIOS[self.scenario].solve(self.sample, after) == self.sample.answer
        return GameState(self.sample, after, "clear" if clear else "middle", self.renderer)


def job_of(messages: tuple[Message, ...], pictures: Mapping[object, Image], situation: Situation) -> Job:
    """A request without decoding options of its own: the engine of learning samples by itself."""
    return Job(Request(messages, Sampling(), 0, situation), pictures)  # type: ignore[arg-type]


def path(sample: Sample, renderer: Renderer) -> list[GameState]:
    """The states of a player who gives the right reply at each: the first is hidden, the last clear."""
    game, states = SCENARIOS[sample.scenario], list[State]()
    state = game.initial(sample)
    while state.ending is None:
        states.append(state)
        state, _ = game.step(sample, state, game.solve(sample, state))
    kinds = ["hidden", *["middle"] * (len(states) - 2), "clear"] if len(states) > 1 else ["clear"]
    return [GameState(sample, state, kind, renderer) for state, kind in zip(states, kinds, strict=True)]


class Pool:
    """States to draw from, by scenario and kind."""

    def __init__(self, states: Sequence[TrainingState], weights: States) -> None:
        self.states = states
        self.scenarios = sorted({state.scenario for state in states})
        shares = weights.model_dump()
        self.weights = {kind: shares[kind] for kind in KINDS}
        self.by_kind: dict[tuple[str, str], list[TrainingState]] = {}
        for state in states:
            self.by_kind.setdefault((state.scenario, state.kind), []).append(state)

    def counts(self) -> dict[str, int]:
        """Kind -> states of it."""
        return {kind: sum(len(self.by_kind.get((name, kind), ())) for name in self.scenarios) for kind in KINDS}

    def drawn(self, number: int, rng: Random) -> list[TrainingState]:
        """``number`` states, scenarios in turn, kinds by their weights among those that the scenario has."""
        return [self._one(self.scenarios[index % len(self.scenarios)], rng) for index in range(number)]

    def _one(self, scenario: str, rng: Random) -> TrainingState:
        kinds = [kind for kind in KINDS if (scenario, kind) in self.by_kind]
        weights = [self.weights[kind] for kind in kinds]
        if not any(weights):
            wanted = ", ".join(kind for kind in KINDS if self.weights[kind])
            raise TrainError(f"{scenario} has no state of the kinds that train.states draws ({wanted})")
        return rng.choice(self.by_kind[scenario, rng.choices(kinds, weights)[0]])


def states_of(
    folder: Path, scenarios: Sequence[str], samples: int | None, seed: int, fit: Fit | None = None
) -> list[GameState]:
    """All states of a folder in the published format, the filter's dropped samples included; raises BadData."""
    renderer = Renderer(folder, fit=fit)
    states: list[GameState] = []
    for scenario in scenarios:
        samples_of_scenario = load_samples(folder, scenario, filtered=False)
        for sample in samples_of_scenario if samples is None else limit_samples(samples_of_scenario, samples, seed):
            states += path(sample, renderer)
    return states


def fingerprint(picture: Image) -> bytes:
    """Digest of a picture's size and RGB pixels, however its file is packed."""
    rgb = picture.convert("RGB")
    return blake2b(repr(rgb.size).encode() + rgb.tobytes(), digest_size=16).digest()


def _pictures(state: TrainingState) -> Iterator[bytes]:
    yield from (fingerprint(picture) for picture in state.job().pictures.values())


def refuse_test_pictures(states: Sequence[TrainingState], scenarios: Sequence[str], sweep: Sweep, data: str) -> None:
    """Raise TrainError where a clear view of the sweep's benchmark is among the pictures that are learnt from.

    Clear views alone name a sample: first views of different samples may be equal (nothing is drawn yet).
    """
    benchmark = Path(sweep.data)
    if not benchmark.is_dir():
        raise TrainError(f"{sweep.data} must be a folder here: what is learnt from must hold none of its samples")
    learnt: dict[bytes, str] = {}
    for state in states:
        if state.kind == "clear" or not isinstance(state, GameState):
            learnt |= {digest: state.key for digest in _pictures(state)}
    scored = [s for s in states_of(benchmark, scenarios, None, 0) if s.kind == "clear"]
    overlaps = [(state.key, learnt[d]) for state in scored for d in _pictures(state) if d in learnt]
    if overlaps:
        (test_key, train_key), *others = overlaps
        count = f" and {len(others)} more" if others else ""
        raise TrainError(
            f"{data} shows pictures that {sweep.data} is scored on ({train_key} is {test_key}{count}); name a folder "
            "without test samples as train.data"
        )
