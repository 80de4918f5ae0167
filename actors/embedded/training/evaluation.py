"""Evaluates the saved folder with transformers alone, on seeds that no training picture was drawn from.

Episodes follow the game's rules on pictures in memory; all episodes of a scenario and condition advance turn by turn together.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor, BatchFeature

from actors.embedded.training.pictures import HELD_OUT, LAP, parse_demo, picture_of
from actors.engine.backend import Message, images_of
from actors.engine.chat_format import conversation
from actors.playing import prompts
from envs import SCENARIOS
from envs.answers import as_text
from envs.demo import draw_sample as demo_sample
from envs.demo.entries import DemoSample
from envs.foreign_suggestions import replace_suggestions
from envs.types import Ending, ImageRef, Mode, Sample, State, Turn, View
from sweeps.conditions import CONDITIONS, Condition

BATCH = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A held-out sample with its pictures."""

    demo: DemoSample
    sample: Sample

    def picture(self, image: ImageRef) -> Image.Image:
        """Return the picture of a view at the size of the view."""
        picture = picture_of(self.demo, image)
        if image.short_edge is None:
            return picture
        scale = image.short_edge / min(picture.size)
        return picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.Resampling.BILINEAR)


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation with its pictures, in order: what the model reads at one turn."""

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
    demos = (demo_sample(scenario, index % LAP, seed + index // LAP) for index in range(count))
    return [Candidate(demo, parse_demo(scenario, demo)) for demo in demos]


class Answerer:
    """The saved model: greedy replies to batches of questions."""

    def __init__(self, folder: Path) -> None:
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()

    def replies(self, questions: Sequence[Question]) -> list[str]:
        """Return one reply per question; questions of similar length share a batch."""
        order = sorted(range(len(questions)), key=lambda k: len(questions[k].pictures))
        replies = dict[int, str]()
        while batch := order[len(replies) :]:
            size = max(1, BATCH * 2 // (1 + len(questions[batch[min(8, len(batch) - 1)]].pictures)))
            replies.update(zip(batch[:size], self._generate([questions[k] for k in batch[:size]]), strict=True))
        return [replies[k] for k in range(len(questions))]

    def inputs(self, questions: Sequence[Question]) -> BatchFeature:
        """Return the saved processor's tensors of questions: tokens padded on the left, and pixels."""
        chats = [conversation(question.messages, lambda image: {"type": "image"}) for question in questions]
        texts = [self.processor.apply_chat_template(chat, add_generation_prompt=True) for chat in chats]
        pictures = [list(question.pictures) for question in questions]
        return self.processor(
            text=texts,
            images=pictures if any(pictures) else None,
            padding=True,
            padding_side="left",
            return_tensors="pt",
        )

    @torch.inference_mode()
    def _generate(self, questions: Sequence[Question]) -> list[str]:
        inputs = self.inputs(questions)
        output = self.model.generate(**inputs, max_new_tokens=50, do_sample=False)
        return self.processor.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def question(game: Game, view: View, condition: Condition, owners: dict[str, Candidate]) -> Question:
    """Return the model's input at this turn; ``owners`` holds the candidate of each picture of the examples."""
    messages = prompts.messages(game.sample, view, condition, game.past, game.examples)
    own = game.candidate
    pictures = [
        (own if image.path in own.demo.frames else owners[image.path]).picture(image) for image in images_of(messages)
    ]
    return Question(messages, tuple(pictures))


def play_games(
    answerer: Answerer,
    samples: Sequence[Candidate],
    condition: Condition,
    turns: int | None = None,
    swapped: bool = False,
) -> list[Game]:
    """Play the episodes of one scenario and condition to their ends, or for at most ``turns`` turns.

    ``swapped`` shows each sample the pictures of the next one.
    """
    owners = {path: candidate for candidate in samples for path in candidate.demo.frames} if condition.shots else {}
    games = list(_open_games(samples, condition))
    while waiting := [game for game in games if game.state.ending is None and len(game.turns) != turns]:
        views = [SCENARIOS[game.sample.scenario].view(game.sample, game.state, condition.hint) for game in waiting]
        questions = [question(game, view, condition, owners) for game, view in zip(waiting, views, strict=True)]
        if swapped:
            shifted = [*questions[1:], questions[0]]
            questions = [replace(q, pictures=other.pictures) for q, other in zip(questions, shifted, strict=True)]
        for game, view, reply in zip(waiting, views, answerer.replies(questions), strict=True):
            game.state, turn = SCENARIOS[game.sample.scenario].step(game.sample, game.state, reply)
            game.turns.append(turn)
            game.past.append((view, reply))
    return games


def _open_games(samples: Sequence[Candidate], condition: Condition, seed: int = 0) -> Iterator[Game]:
    pool = [candidate.sample for candidate in samples]
    for candidate in samples:
        sample = replace_suggestions(candidate.sample, seed) if condition.mode is Mode.RANDOM else candidate.sample
        examples = prompts.examples(sample, pool, condition, seed)
        yield Game(candidate, sample, SCENARIOS[sample.scenario].initial(sample, condition.mode, seed), examples)


def accuracy(games: Sequence[Game]) -> float:
    """Return the percentage of episodes that end correct."""
    return 100 * sum(game.state.ending is Ending.CORRECT for game in games) / len(games)


def named_at_once(games: Sequence[Game]) -> float:
    """Return the percentage of episodes whose first reply names the right category, even if it does not count (ROD)."""
    named = sum(as_text(game.turns[0].reply) == as_text(game.sample.answer) for game in games)
    return 100 * named / len(games)


def actions(games: Sequence[Game], first: bool = False) -> dict[str, float]:
    """Return action -> percentage of all turns, or of first turns."""
    counts = Counter(str(turn.action) for game in games for turn in (game.turns[:1] if first else game.turns))
    return {name: round(100 * count / counts.total(), 1) for name, count in sorted(counts.items())}


def reference(answerer: Answerer, samples: Sequence[Candidate], swapped: bool = False) -> float:
    """Return the percentage of reference questions answered right; ``swapped`` shows each sample the next one's picture."""
    return accuracy(play_games(answerer, samples, CONDITIONS["reference"], swapped=swapped))
