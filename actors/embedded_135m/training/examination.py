"""Measures the assembled folder against the targets, on seeds that nothing was trained or tuned on, with transformers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from scipy.stats import binomtest  # type: ignore[import-untyped]

from actors.embedded.training.evaluation import Answerer, Candidate, Game, Question, candidates, play_games
from actors.embedded.training.pictures import HELD_OUT, NAMES
from actors.embedded_135m.assemble import load_language, load_tokenizer
from actors.embedded_135m.training.general_questions import EXAMINATION
from actors.embedded_135m.training.speaking_stage import generate_answers
from actors.engine.backend import Message
from envs import SCENARIOS
from envs.answers import as_text
from envs.openended import accepted_answers, read_verdict, rule_verdict
from envs.stimulus import OPEN_ENDED_HINT
from envs.types import Ending, Mode
from sweeps.conditions import CONDITIONS

FIRST_SEED = HELD_OUT + 20_000
"""First seed of an examination; training stays below HELD_OUT, its progress is measured from HELD_OUT + 50,000 on."""
WHAT = "What is in this picture?"
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured share with its target."""

    name: str
    hits: int
    trials: int
    target: float
    """Percent."""
    at_most: bool = False

    @property
    def percent(self) -> float:
        """The share in percent; 0 without trials."""
        return 100 * self.hits / self.trials if self.trials else 0.0

    @property
    def row(self) -> str:
        """The row of the model card: share, 95% interval (Wilson), trials, target, and whether it is met."""
        interval = binomtest(self.hits, max(1, self.trials)).proportion_ci(method="wilson")
        is_met = self.trials > 0 and (self.percent <= self.target if self.at_most else self.percent >= self.target)
        target = f"{'at most' if self.at_most else 'at least'} {self.target:.0f}"
        limits = f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
        return (
            f"| {self.name} | {self.percent:.1f} | {limits} | {self.trials} | {target} | {'yes' if is_met else 'no'} |"
        )


def examine(folder: Path, language: Path, each: int, counts: int) -> list[Figure]:
    """Return all figures; ``each`` samples per scenario, and at least ``counts`` samples about counting."""
    torch.set_num_threads(1)
    answerer = Answerer(folder)
    samples = {name: candidates(name, each, FIRST_SEED) for name in SCENARIOS}
    everything = [candidate for scenario in samples.values() for candidate in scenario]
    return [
        *_multiple_choice(answerer, samples),
        *_open(answerer, everything),
        _counting(answerer, counts),
        *_general(answerer, folder, language),
    ]


def _multiple_choice(answerer: Answerer, samples: dict[str, list[Candidate]]) -> list[Figure]:
    def correct(condition: str, swapped: bool = False) -> list[bool]:
        scenarios = CONDITIONS[condition].scenarios or SCENARIOS
        played = (play_games(answerer, samples[name], CONDITIONS[condition], swapped=swapped) for name in scenarios)
        return [game.state.ending is Ending.CORRECT for games in played for game in games]

    clear, swapped, examples = correct("reference"), correct("reference", swapped=True), correct("icl-1")
    games = [game for name in SCENARIOS for game in play_games(answerer, samples[name], CONDITIONS["history"])]
    return [
        Figure("multiple choice, clear pictures", sum(clear), len(clear), 90),
        Figure("the same with another sample's picture (chance: 25)", sum(swapped), len(swapped), 32, at_most=True),
        Figure("history: replies that were an option", *_readable(games), 90),
        Figure("icl-1: episodes right in the end", sum(examples), len(examples), 25),
    ]


def _readable(games: Sequence[Game]) -> tuple[int, int]:
    turns = [turn for game in games for turn in game.turns]
    return sum(str(turn.action) != "unparsable" for turn in turns), len(turns)


def _ask(answerer: Answerer, candidate: Candidate, mode: Mode, text: str = "") -> Question:
    """Return an open question about a sample's clear or first picture: ``text``, or the benchmark's with its hint."""
    game = SCENARIOS[candidate.sample.scenario]
    view = game.view(candidate.sample, game.initial(candidate.sample, mode, 0))
    question = text or view.prompt + OPEN_ENDED_HINT
    return Question((Message("user", question, (view.image,)),), (candidate.picture(view.image),))


def _names(reply: str, name: str) -> bool:
    return name in f" {reply.lower()}"


def _open(answerer: Answerer, samples: Sequence[Candidate]) -> list[Figure]:
    named = [candidate for candidate in samples if not as_text(candidate.sample.answer).rstrip(".").isdigit()]
    replies = answerer.replies([_ask(answerer, candidate, Mode.REFERENCE, WHAT) for candidate in named])
    right = sum(_names(r, f" {c.sample.answer.rstrip('.').lower()}") for r, c in zip(replies, named, strict=True))
    hidden = answerer.replies([_ask(answerer, candidate, Mode.PLAY) for candidate in samples])
    verdicts = [
        read_verdict(rule_verdict(c.sample, reply, False), c.sample.scenario, len(accepted_answers(c.sample, False)))
        for c, reply in zip(samples, hidden, strict=True)
    ]
    fitting = sum(verdict is not None and verdict.suggestion for verdict in verdicts)
    naming = sum(any(_names(reply, f" {name.lower()}") for name in NAMES) for reply in hidden)
    return [
        Figure("naming in open words, clear pictures", right, len(named), 80),
        Figure("hidden views: a request that the rule judge accepts", fitting, len(samples), 80),
        Figure("hidden views: a category is named", naming, len(samples), 5, at_most=True),
    ]


def _counting(answerer: Answerer, count: int) -> Figure:
    pool = candidates("COCO", 8 * count, FIRST_SEED + 1000)
    numbered = [c for c in pool if c.sample.answer.rstrip(".").isdigit()][:count]
    replies = answerer.replies([_ask(answerer, candidate, Mode.REFERENCE) for candidate in numbered])
    right = 0
    for reply, candidate in zip(replies, numbered, strict=True):
        number = int(candidate.sample.answer.rstrip("."))
        right += _names(reply, f" {NUMBERS[number]}") or _names(reply, f" {number}")
    return Figure("counts, clear pictures, in open words", right, len(numbered), 60)


def _general(answerer: Answerer, folder: Path, language: Path) -> list[Figure]:
    """Compare answers without pictures with those of the language half as it was, both through this model's template."""
    tokenizer = load_tokenizer(language)
    frozen = generate_answers(load_language(language, tokenizer), tokenizer, tuple(EXAMINATION))
    asked = [Question((Message("user", question),), ()) for question in EXAMINATION]
    learned = [answerer.replies([question])[0] for question in asked]

    def right(answers: Sequence[str]) -> int:
        pairs = zip(answers, EXAMINATION.values(), strict=True)
        return sum(any(word.lower() in answer.lower() for word in words.split("|")) for answer, words in pairs)

    before = right(frozen)
    return [
        Figure("general questions, the language half as it was", before, len(frozen), 0),
        Figure("general questions, this model", right(learned), len(learned), 100 * before / len(frozen) - 5),
    ]
