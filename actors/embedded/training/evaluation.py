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

from actors import prompts
from actors.backend import Message
from actors.embedded.training.pictures import HELD_OUT, LAP, picture_of, sample_of
from envs import SCENARIOS
from envs.answers import as_text
from envs.demo import sample as demo_sample
from envs.demo.entries import DemoSample
from envs.disguise import disguised
from envs.types import Ending, ImageRef, Mode, Sample, State, Turn, View
from sweeps.conditions import Condition

BATCH = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A held-out sample with its pictures."""

    drawn: DemoSample
    sample: Sample

    def picture(self, image: ImageRef) -> Image.Image:
        """What a view names, resized as it says."""
        picture = picture_of(self.drawn, image)
        if image.short_edge is None:
            return picture
        scale = image.short_edge / min(picture.size)
        return picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.BILINEAR)


@dataclass(frozen=True, slots=True)
class Question:
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
    """Held-out samples of a scenario, LAP to a seed."""
    return [_candidate(scenario, place % LAP, seed + place // LAP) for place in range(count)]


def _candidate(scenario: str, index: int, seed: int) -> Candidate:
    drawn = demo_sample(scenario, index, seed)
    return Candidate(drawn, sample_of(scenario, drawn.entry))


class Answerer:
    """The saved model: greedy replies to batches of questions."""

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    def replies(self, questions: Sequence[Question]) -> list[str]:
        """One reply a question; alike lengths are answered together."""
        order = sorted(range(len(questions)), key=lambda k: len(questions[k].pictures))
        said = dict[int, str]()
        start = 0
        while start < len(order):
            room = max(1, BATCH * 2 // (1 + len(questions[order[min(start + 8, len(order) - 1)]].pictures)))
            part = order[start : start + room]
            said.update(zip(part, self._answered([questions[k] for k in part]), strict=True))
            start += room
        return [said[k] for k in range(len(questions))]

    def inputs(self, questions: Sequence[Question]) -> BatchFeature:
        """What the saved processor makes of questions: tokens padded on the left, and pixels."""
        texts = [self.processor.apply_chat_template(_spoken(q.messages), add_generation_prompt=True) for q in questions]
        return self.processor(
            text=texts,
            images=[list(q.pictures) for q in questions],
            padding=True,
            padding_side="left",
            return_tensors="pt",
        )

    @torch.inference_mode()
    def _answered(self, questions: Sequence[Question]) -> list[str]:
        inputs = self.inputs(questions)
        made = self.model.generate(**inputs, max_new_tokens=50, do_sample=False)
        return self.processor.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def _spoken(messages: Sequence[Message]) -> list[dict[str, object]]:
    return [
        {"role": m.role, "content": [*({"type": "image"} for _ in m.images), {"type": "text", "text": m.text}]}
        for m in messages
    ]


def question(game: Game, view: View, condition: Condition, pool: dict[str, Candidate]) -> Question:
    """What the model gets at this turn."""
    asked = prompts.messages(game.sample, view, condition, game.past, game.examples)
    images = [image for message in asked for image in message.images]
    owners = [_owner(image, game.candidate, pool) for image in images]
    return Question(asked, tuple(owner.picture(image) for owner, image in zip(owners, images, strict=True)))


def _owner(image: ImageRef, own: Candidate, pool: dict[str, Candidate]) -> Candidate:
    return own if image.path in own.drawn.frames else pool[image.path]


def played(answerer: Answerer, drawn: Sequence[Candidate], condition: Condition, seed: int = 0) -> list[Game]:
    """All episodes of one scenario and condition, to their ends."""
    pool = {path: one for one in drawn for path in one.drawn.frames} if condition.shots else {}
    games = list(_opened(drawn, condition, seed))
    while waiting := [game for game in games if game.state.ending is None]:
        _advance(answerer, waiting, condition, pool)
    return games


def opened(answerer: Answerer, drawn: Sequence[Candidate], condition: Condition, seed: int = 0) -> list[Game]:
    """The first turn of each of these episodes."""
    pool = {path: one for one in drawn for path in one.drawn.frames} if condition.shots else {}
    games = list(_opened(drawn, condition, seed))
    _advance(answerer, games, condition, pool)
    return games


def _advance(answerer: Answerer, games: Sequence[Game], condition: Condition, pool: dict[str, Candidate]) -> None:
    """One turn of every game."""
    views = [SCENARIOS[game.sample.scenario].view(game.sample, game.state, condition.hint) for game in games]
    asked = [question(game, view, condition, pool) for game, view in zip(games, views, strict=True)]
    for game, view, reply in zip(games, views, answerer.replies(asked), strict=True):
        game.state, turn = SCENARIOS[game.sample.scenario].step(game.sample, game.state, reply)
        game.turns.append(turn)
        game.past.append((view, reply))


def _opened(drawn: Sequence[Candidate], condition: Condition, seed: int) -> Iterator[Game]:
    for one in drawn:
        sample = disguised(one.sample, seed) if condition.mode is Mode.RANDOM else one.sample
        examples = prompts.examples(sample, [other.sample for other in drawn], condition, seed)
        yield Game(one, sample, SCENARIOS[sample.scenario].initial(sample, condition.mode, seed), examples)


def accuracy(games: Sequence[Game]) -> float:
    """Percent of episodes that end correct."""
    return 100 * sum(game.state.ending is Ending.CORRECT for game in games) / len(games)


def named_at_once(games: Sequence[Game]) -> float:
    """Percent of episodes whose first reply holds the right category, whether or not it counted (in ROD it never does)."""
    told = sum(as_text(game.turns[0].reply) == as_text(game.sample.answer) for game in games)
    return 100 * told / len(games)


def actions(games: Sequence[Game], first: bool = False) -> dict[str, float]:
    """Percent of all turns (or of first turns) by what was done."""
    done = Counter(str(turn.action) for game in games for turn in (game.turns[:1] if first else game.turns))
    return {name: round(100 * count / done.total(), 1) for name, count in sorted(done.items())}


def reference(answerer: Answerer, drawn: Sequence[Candidate], swapped: bool = False) -> float:
    """Percent of reference questions answered right; ``swapped`` shows each the next sample's picture instead."""
    games = list(_opened(drawn, Condition(name="reference", mode=Mode.REFERENCE), 0))
    views = [SCENARIOS[game.sample.scenario].view(game.sample, game.state) for game in games]
    pictures = [game.candidate.picture(view.image) for game, view in zip(games, views, strict=True)]
    if swapped:
        pictures = [*pictures[1:], pictures[0]]
    asked = [Question((prompts.ask(view),), (picture,)) for view, picture in zip(views, pictures, strict=True)]
    ended = [
        SCENARIOS[game.sample.scenario].step(game.sample, game.state, reply)[0].ending
        for game, reply in zip(games, answerer.replies(asked), strict=True)
    ]
    return 100 * sum(ending is Ending.CORRECT for ending in ended) / len(ended)
