"""The states of a training: views of the game on the path of a player who asks until the answer is visible.

Rewards are the game's own verdicts. No state shows a picture that the benchmark is scored on (``refuse_test_pictures``).
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
    """The end token included, if the reply has one."""
    logprob: float
    """Sum of the log-probabilities of its tokens at temperature 1, given the question it was sampled from."""


@dataclass(frozen=True, slots=True)
class ReplyOutcome:
    """The outcome of one reply in the game."""

    action: Action
    right: bool
    """True if the reply names the right category and the game counts it."""
    is_suggestion: bool
    """True if the reply is a valid suggestion."""
    next_state: State | None = None
    """None if the episode ends here."""

    def reward(self, suggestion: float) -> float:
        """Return 1 for the right category, ``suggestion`` (the paper's rp) for a valid suggestion, else 0 (paper, section 5)."""
        return 1.0 if self.right else suggestion if self.is_suggestion else 0.0


class TrainingState(Protocol):
    """One question, with or without its hint, and the outcome of replies to it."""

    @property
    def key(self) -> str:
        """Scenario, sample and turn."""
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
        """Return the question for an engine, pictures included; raise TrainError for an unreadable picture."""
        ...

    def outcome(self, reply: str) -> ReplyOutcome:
        """Return the outcome of a reply."""
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
        return build_job(
            (prompts.question_message(view),), {view.image: picture}, Situation(self.sample, self.state, view)
        )

    def outcome(self, reply: str) -> ReplyOutcome:
        state, turn = SCENARIOS[self.scenario].step(self.sample, self.state, reply)
        right, is_suggestion = state.ending is Ending.CORRECT, turn.option is Verdict.CORRECT
        return ReplyOutcome(turn.action, right, is_suggestion and not right, state if state.ending is None else None)

    def successor(self, state: State) -> GameState:
        """Return a later state of the same episode; it is clear if the answer is visible in it."""
        is_clear = SCENARIOS[self.scenario].solve(self.sample, state) == self.sample.answer
        return GameState(self.sample, state, "clear" if is_clear else "middle", self.renderer)


def build_job(messages: tuple[Message, ...], pictures: Mapping[object, Image], situation: Situation) -> Job:
    """Return a request with default sampling: the training samples by its own settings."""
    return Job(Request(messages, Sampling(), 0, situation), pictures)  # type: ignore[arg-type]


def solution_path(sample: Sample, renderer: Renderer) -> list[GameState]:
    """Return the states of a player who always gives the right reply: the first is hidden, the last clear."""
    states = SCENARIOS[sample.scenario].solution(sample)[:-1]
    kinds = ["hidden", *["middle"] * (len(states) - 2), "clear"] if len(states) > 1 else ["clear"]
    return [GameState(sample, state, kind, renderer) for state, kind in zip(states, kinds, strict=True)]


class Pool:
    """A pool of states to draw from, by scenario and kind."""

    def __init__(self, states: Sequence[TrainingState], weights: States) -> None:
        self.states = states
        self.scenarios = sorted({state.scenario for state in states})
        self.weights = weights.model_dump()
        self.by_kind: dict[tuple[str, str], list[TrainingState]] = {}
        for state in states:
            self.by_kind.setdefault((state.scenario, state.kind), []).append(state)

    def counts(self) -> dict[str, int]:
        """Return kind -> number of states."""
        return {kind: sum(len(self.by_kind.get((name, kind), ())) for name in self.scenarios) for kind in KINDS}

    def draw(self, number: int, rng: Random) -> list[TrainingState]:
        """Draw ``number`` states: scenarios in turn, kinds by their weights among those that the scenario has."""
        return [self._draw_state(self.scenarios[index % len(self.scenarios)], rng) for index in range(number)]

    def _draw_state(self, scenario: str, rng: Random) -> TrainingState:
        kinds = [kind for kind in KINDS if (scenario, kind) in self.by_kind]
        weights = [self.weights[kind] for kind in kinds]
        if not any(weights):
            wanted = ", ".join(kind for kind in KINDS if self.weights[kind])
            raise TrainError(f"{scenario} has no state of the kinds that train.states draws ({wanted})")
        return rng.choice(self.by_kind[scenario, rng.choices(kinds, weights)[0]])


def load_states(
    folder: Path, scenarios: Sequence[str], samples: int | None, seed: int, fit: Fit | None = None
) -> list[GameState]:
    """Load the states of a data folder, including samples that the benchmark's filter drops; raises BadData."""
    renderer = Renderer(folder, fit=fit)
    states: list[GameState] = []
    for scenario in scenarios:
        chosen = load_samples(folder, scenario, filtered=False)
        for sample in chosen if samples is None else limit_samples(chosen, samples, seed):
            states += solution_path(sample, renderer)
    return states


def fingerprint(picture: Image) -> bytes:
    """Return a digest of a picture's size and RGB pixels."""
    rgb = picture.convert("RGB")
    return blake2b(repr(rgb.size).encode() + rgb.tobytes(), digest_size=16).digest()


def _fingerprints(state: TrainingState) -> Iterator[bytes]:
    yield from (fingerprint(picture) for picture in state.job().pictures.values())


def refuse_test_pictures(states: Sequence[TrainingState], scenarios: Sequence[str], sweep: Sweep, data: str) -> None:
    """Raise TrainError if a clear view of the sweep's benchmark is among the pictures of the training.

    Only clear views identify a sample: first views of different samples may be equal, such as an empty canvas.
    """
    benchmark = Path(sweep.data)
    if not benchmark.is_dir():
        raise TrainError(f"{sweep.data} must be a local folder, to check that no training sample is one of its samples")
    train_keys: dict[bytes, str] = {}
    for state in states:
        if state.kind == "clear" or not isinstance(state, GameState):
            train_keys |= {digest: state.key for digest in _fingerprints(state)}
    scored = [s for s in load_states(benchmark, scenarios, None, 0) if s.kind == "clear"]
    overlaps = [(state.key, train_keys[d]) for state in scored for d in _fingerprints(state) if d in train_keys]
    if overlaps:
        (test_key, train_key), *others = overlaps
        count = f" and {len(others)} more" if others else ""
        raise TrainError(
            f"{data} shows pictures that {sweep.data} is scored on ({train_key} is {test_key}{count}); name a folder "
            "without test samples as train.data"
        )
