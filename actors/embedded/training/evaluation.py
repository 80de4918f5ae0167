"""Evaluates the saved folder through transformers alone, on seeds that no training picture was drawn from.

Episodes are played by the game's own rules on pictures in memory, all of a scenario and condition in step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, BatchFeature

from actors.embedded.training.pictures import HELD_OUT, LAP, picture_of, sample_of
from actors.engine.backend import Message
from actors.playing import prompts
from envs import SCENARIOS
from envs.answers import as_text
from envs.demo import draw_sample as demo_sample
from envs.demo.entries import DemoSample
from envs.disguise import replace_suggestions
from envs.types import Ending, ImageRef, Mode, Sample, State, Turn, View
from sweeps.conditions import Condition

BATCH = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A held-out sample with its pictures."""

    demo: DemoSample
    sample: Sample

    def picture(self, image: ImageRef) -> Image.Image:
        """Return the picture that a view names, resized as it says."""
        picture = picture_of(self.demo, image)
        if image.short_edge is None:
            return picture
        scale = image.short_edge / min(picture.size)
        return picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.BILINEAR)


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A conversation and its pictures, in order."""

    messages: tuple[Message, ...]
    pictures: tuple[Image.Image, ...]


@dataclass(slots=True)
class Game:
    """One episode being played."""

    candidate: Candidate
    sample: Sample
    state: State
    examples: tuple[Message, ...] = ()
    past: list[prompts.Past] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


def candidates(scenario: str, count: int, seed: int = HELD_OUT) -> list[Candidate]:
    """Draw held-out samples of a scenario, LAP per seed."""
    return [_candidate(scenario, index % LAP, seed + index // LAP) for index in range(count)]


def _candidate(scenario: str, index: int, seed: int) -> Candidate:
    demo = demo_sample(scenario, index, seed)
    return Candidate(demo, sample_of(scenario, demo.entry))


class Answerer:
    """The saved model: greedy replies to batches of questions."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    def replies(self, questions: Sequence[ModelInput]) -> list[str]:
        """Return one reply per question; similar lengths are answered together."""
        order = sorted(range(len(questions)), key=lambda k: len(questions[k].pictures))
        replies = dict[int, str]()
        start = 0
        while start < len(order):
            room = max(1, BATCH * 2 // (1 + len(questions[order[min(start + 8, len(order) - 1)]].pictures)))
            part = order[start : start + room]
            replies.update(zip(part, self._generate([questions[k] for k in part]), strict=True))
            start += room
        return [replies[k] for k in range(len(questions))]

    def inputs(self, questions: Sequence[ModelInput]) -> BatchFeature:
        """Return the saved processor's tensors of questions: tokens padded on the left, and pixels."""
        texts = [self.processor.apply_chat_template(_spoken(q.messages), add_generation_prompt=True) for q in questions]
        return self.processor(
            text=texts,
            images=[list(q.pictures) for q in questions],
            padding=True,
            padding_side="left",
            return_tensors="pt",
        )

    @torch.inference_mode()
    def _generate(self, questions: Sequence[ModelInput]) -> list[str]:
        inputs = self.inputs(questions)
        output = self.model.generate(**inputs, max_new_tokens=50, do_sample=False)
        return self.processor.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def _spoken(messages: Sequence[Message]) -> list[dict[str, object]]:
    return [
        {"role": m.role, "content": [*({"type": "image"} for _ in m.images), {"type": "text", "text": m.text}]}
        for m in messages
    ]


def question(game: Game, view: View, condition: Condition, pool: dict[str, Candidate]) -> ModelInput:
    """Return the model's input at this turn."""
    messages = prompts.messages(game.sample, view, condition, game.past, game.examples)
    images = [image for message in messages for image in message.images]
    owners = [_owner(image, game.candidate, pool) for image in images]
    return ModelInput(messages, tuple(owner.picture(image) for owner, image in zip(owners, images, strict=True)))


def _owner(image: ImageRef, own: Candidate, pool: dict[str, Candidate]) -> Candidate:
    return own if image.path in own.demo.frames else pool[image.path]


def play_games(answerer: Answerer, samples: Sequence[Candidate], condition: Condition, seed: int = 0) -> list[Game]:
    """Play all episodes of one scenario and condition to their ends."""
    pool = {path: candidate for candidate in samples for path in candidate.demo.frames} if condition.shots else {}
    games = list(_open_games(samples, condition, seed))
    while waiting := [game for game in games if game.state.ending is None]:
        _advance(answerer, waiting, condition, pool)
    return games


def play_first_turns(
    answerer: Answerer, samples: Sequence[Candidate], condition: Condition, seed: int = 0
) -> list[Game]:
    """Play the first turn of each of these episodes."""
    pool = {path: candidate for candidate in samples for path in candidate.demo.frames} if condition.shots else {}
    games = list(_open_games(samples, condition, seed))
    _advance(answerer, games, condition, pool)
    return games


def _advance(answerer: Answerer, games: Sequence[Game], condition: Condition, pool: dict[str, Candidate]) -> None:
    """Play one turn of every game."""
    views = [SCENARIOS[game.sample.scenario].view(game.sample, game.state, condition.hint) for game in games]
    questions = [question(game, view, condition, pool) for game, view in zip(games, views, strict=True)]
    for game, view, reply in zip(games, views, answerer.replies(questions), strict=True):
        game.state, turn = SCENARIOS[game.sample.scenario].step(game.sample, game.state, reply)
        game.turns.append(turn)
        game.past.append((view, reply))


def _open_games(samples: Sequence[Candidate], condition: Condition, seed: int) -> Iterator[Game]:
    pool = [candidate.sample for candidate in samples]
    for candidate in samples:
        sample = replace_suggestions(candidate.sample, seed) if condition.mode is Mode.RANDOM else candidate.sample
        examples = prompts.examples(sample, pool, condition, seed)
        yield Game(candidate, sample, SCENARIOS[sample.scenario].initial(sample, condition.mode, seed), examples)


def accuracy(games: Sequence[Game]) -> float:
    """Return the percentage of episodes that end correct."""
    return 100 * sum(game.state.ending is Ending.CORRECT for game in games) / len(games)


def named_at_once(games: Sequence[Game]) -> float:
    """Return the percentage of episodes whose first reply names the right category, counted or not (ROD never does)."""
    named = sum(as_text(game.turns[0].reply) == as_text(game.sample.answer) for game in games)
    return 100 * named / len(games)


def actions(games: Sequence[Game], first: bool = False) -> dict[str, float]:
    """Return the percentage of all turns (or of first turns) by what was done."""
    done = Counter(str(turn.action) for game in games for turn in (game.turns[:1] if first else game.turns))
    return {name: round(100 * count / done.total(), 1) for name, count in sorted(done.items())}


def reference(answerer: Answerer, samples: Sequence[Candidate], swapped: bool = False) -> float:
    """Return the percentage of reference questions answered right; ``swapped`` shows each the next sample's picture instead."""
    games = list(_open_games(samples, Condition(name="reference", mode=Mode.REFERENCE), 0))
    views = [SCENARIOS[game.sample.scenario].view(game.sample, game.state) for game in games]
    pictures = [game.candidate.picture(view.image) for game, view in zip(games, views, strict=True)]
    if swapped:
        pictures = [*pictures[1:], pictures[0]]
    questions = [
        ModelInput((prompts.question_message(view),), (picture,)) for view, picture in zip(views, pictures, strict=True)
    ]
    ended = [
        SCENARIOS[game.sample.scenario].step(game.sample, game.state, reply)[0].ending
        for game, reply in zip(games, answerer.replies(questions), strict=True)
    ]
    return 100 * sum(ending is Ending.CORRECT for ending in ended) / len(ended)
