"""The states of a training: views of the game on the path of a player who asks until the answer is visible.

Rewards are the game's own verdicts. No state shows a picture that the benchmark is scored on (``refuse_test_pictures``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from random import Random
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from actors.engine.backend import Message, Request, Situation
from actors.engine.batching import Job
from actors.engine.image_loader import picture_bounds
from actors.playing import prompts
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.render import FORMATS, Fit, Renderer, UnreadablePicture
from envs.samples import limit_samples, load_samples
from envs.scenario import suggestions
from envs.types import Action, Ending, ImageRef, Sample, State, Verdict, View
from orchestrator.storage.disk import check_data_path
from proactive_learn.settings import Train, TrainError, Training
from proactive_learn.train_split import SplitRow, is_split, read_rows
from sweeps.sampling import Sampling
from sweeps.spec import Sweep

KINDS = ("hidden", "middle", "clear")


class ReplyOutcome(NamedTuple):
    action: Action
    right: bool
    """True if the reply names the right category and the game counts it."""
    is_suggestion: bool
    """True if the reply is a valid suggestion."""

    def reward(self, suggestion: float) -> float:
        """Return 1 for the right category, ``suggestion`` (the paper's rp) for a valid suggestion, else 0 (paper, section 5)."""
        return 1.0 if self.right else suggestion if self.is_suggestion else 0.0


@dataclass(frozen=True)
class GameState:
    """A state of an episode of a sample."""

    sample: Sample
    state: State
    kind: str
    """One of ``KINDS``."""
    renderer: Renderer

    @property
    def key(self) -> str:
        return f"{self.sample.scenario}/{self.sample.id}/{self.state.turn}"

    @property
    def scenario(self) -> str:
        return self.sample.scenario

    def job(self, hint: bool = False) -> Job:
        """Return the question for an engine, pictures included; raise TrainError for an unreadable picture."""
        view = SCENARIOS[self.scenario].view(self.sample, self.state, hint)
        try:
            picture = self.renderer.picture(view.image)
        except UnreadablePicture as bad:
            raise TrainError(
                f"{self.key} cannot be shown: {bad}; `proactive-sweep data check` lists every bad picture"
            ) from None
        situation = Situation(self.sample, self.state, view)
        return build_job((prompts.question_message(view),), {view.image: picture}, situation)

    def outcome(self, reply: str) -> ReplyOutcome:
        state, turn = SCENARIOS[self.scenario].step(self.sample, self.state, reply)
        right, is_suggestion = state.ending is Ending.CORRECT, turn.option is Verdict.CORRECT
        return ReplyOutcome(turn.action, right, is_suggestion and not right)


SPLIT_SCENARIOS = ("QD", "COCO")
"""The scenarios of the split (paper, section 5)."""


@dataclass(frozen=True)
class SplitState:
    """A row of the published train split; its kind is unknown and counts as ``middle``."""

    row: SplitRow
    kind: str = "middle"

    @property
    def key(self) -> str:
        return f"train/{self.row.number}"

    @property
    def scenario(self) -> str:
        """The scenario whose moves are among its suggestions, by default the first of ``SPLIT_SCENARIOS``."""
        text = " ".join(suggestions(self.row.options)).lower()
        named = (name for name in SPLIT_SCENARIOS if any(cue in text for cue in SCENARIOS[name].cue))
        return next(named, SPLIT_SCENARIOS[0])

    def job(self, hint: bool = False) -> Job:
        """Return the question for an engine; raise TrainError for a hint, which the split has not."""
        if hint:
            raise TrainError("the published train split has no questions with hints; set train.exploration.hint = 0")
        row, image = self.row, ImageRef(self.key)
        view = View(image, row.question, row.options, ())
        sample = Sample(self.scenario, row.number, row.question, row.options, (), row.answer, self.key, 0, 1, 0)
        question = Message("user", row.question, (image,))
        return build_job((question,), {image: self._picture()}, Situation(sample, State(0), view))

    def _picture(self) -> Image.Image:
        try:
            return Image.open(BytesIO(self.row.picture), formats=FORMATS).convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
            raise TrainError(
                f"row {self.row.number} of the train split has no picture that can be decoded; fetch it again"
            ) from None

    def outcome(self, reply: str) -> ReplyOutcome:
        """Match the reply's text, then its letter, against all options as one list (``envs.answers``)."""
        options, text, letter = self.row.options, as_text(reply), as_letter(reply)
        answer = option_table(options, (self.row.answer,), 0).read(text, letter)
        suggestion = option_table(options, self.row.suggestions, 0).read(text, letter)
        right = answer.verdict is Verdict.CORRECT
        return ReplyOutcome(self._action(answer.chosen), right, suggestion.verdict is Verdict.CORRECT and not right)

    def _action(self, chosen: int) -> Action:
        if chosen < 0:
            return Action.UNPARSABLE
        option = self.row.options[chosen]
        if option in self.row.suggestions:
            return Action.SUGGESTION
        return Action.CATEGORY if option in suggestions((option,)) else Action.ABSTENTION


TrainingState = GameState | SplitState
"""One question, with or without its hint, and the outcome of replies to it."""


def build_job(messages: tuple[Message, ...], pictures: Mapping[object, Image.Image], situation: Situation) -> Job:
    """Return a job with default sampling settings, which the training replaces by its own."""
    return Job(Request(messages, Sampling(), 0, situation), pictures)  # type: ignore[arg-type]


def count_kinds(states: Sequence[TrainingState]) -> str:
    """Return the numbers of states by kind: ``320 hidden, 40 middle, 320 clear``."""
    counts = Counter(state.kind for state in states)
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS)


def load_training_states(training: Training) -> list[TrainingState]:
    """Load the states to learn from; raise TrainError if one of them shows a test picture."""
    sweep, train = training
    check_data_path(train.data)
    states: list[TrainingState] = []
    if is_split(Path(train.data)):
        states += load_split_states(Path(train.data), train.scenarios, train.samples, train.seed)
    else:
        states += load_states(Path(train.data), train.scenarios, train.samples, train.seed, picture_bounds(train.model))
    refuse_test_pictures(states, train.scenarios, sweep, train.data)
    if wanted := [state for state in states if getattr(train.states, state.kind)]:
        return wanted
    kinds = count_kinds(states)
    raise TrainError(
        f"{train.data} has no state of {', '.join(train.scenarios)} that train.states takes (it has {kinds})"
    )


def load_split_states(folder: Path, scenarios: Sequence[str], samples: int | None, seed: int) -> list[SplitState]:
    """Load the rows of some scenarios from a folder, or ``samples`` of them in all, drawn by seed; raises BadData."""
    states = [state for state in map(SplitState, read_rows(folder)) if state.scenario in scenarios]
    if samples is not None and samples < len(states):
        states = Random(f"{seed}/learning/rows").sample(states, samples)
    return states


def load_states(
    folder: Path, scenarios: Sequence[str], samples: int | None, seed: int, fit: Fit | None = None
) -> list[GameState]:
    """Load the states of a data folder, including samples that the benchmark's filter drops; raises BadData."""
    renderer = Renderer(folder, fit=fit)
    states: list[GameState] = []
    for scenario in scenarios:
        loaded = load_samples(folder, scenario, filtered=False)
        for sample in loaded if samples is None else limit_samples(loaded, samples, seed):
            states += solution_path(sample, renderer)
    return states


def solution_path(sample: Sample, renderer: Renderer) -> list[GameState]:
    """Return the states of a player who always gives the right reply: the first is hidden, the last clear."""
    states = SCENARIOS[sample.scenario].solution(sample)[:-1]
    kinds = ["hidden", *["middle"] * (len(states) - 2), "clear"] if len(states) > 1 else ["clear"]
    return [GameState(sample, state, kind, renderer) for state, kind in zip(states, kinds, strict=True)]


def state_order(state_count: int, train: Train) -> list[int]:
    """Return the index of the state of each group, step by step; each pass visits every state once, in a new order."""
    group_count, indices = train.steps * train.groups, list[int]()
    while len(indices) < group_count:
        rng = Random(f"{train.seed}/learning/pass/{len(indices) // state_count}")
        indices += rng.sample(range(state_count), state_count)
    return indices[:group_count]


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


def _fingerprints(state: TrainingState) -> Iterator[bytes]:
    """Yield a digest of size and RGB pixels of each picture."""
    for picture in state.job().pictures.values():
        rgb = picture.convert("RGB")
        yield blake2b(repr(rgb.size).encode() + rgb.tobytes(), digest_size=16).digest()
