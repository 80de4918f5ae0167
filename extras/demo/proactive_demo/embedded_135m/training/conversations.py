"""The conversations to learn from: the sweep's own questions, with short replies to options and English to open questions."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.stimulus import PROMPTS
from envs.types import View
from proactive_demo.embedded.training import target_policy
from proactive_demo.embedded.training.pictures import NAMES, Bank, BankView, Play
from proactive_demo.embedded.training.training_data import TrainingData, TrainingExample, draw_view
from sweeps.protocol import ZERO_SHOT

SHORT = {ZERO_SHOT: 26, "hint": 10, "random-proactive": 4, "reference": 30}
WEIGHTS = {"ROD": 1.0, "VSOD": 1.3, "MVP-N": 1.2, "IN-C": 1.3, "QD": 1.0, "CIT": 1.0, "COCO": 1.5}
MOST_PICTURES = 3
ENGLISH = tomllib.loads(Path(__file__).with_name("english.toml").read_text("utf-8"))
TRAINING_QUESTIONS = tuple(
    question.format(words) for question, lines in ENGLISH["without_pictures"].items() for words in lines
)
"""Questions without a picture, which the frozen model answers."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The shares of the examples that a stage learns from."""

    kinds: Mapping[str, int]
    """Kind of example -> weight: multiple choice, open questions, several pictures, and the frozen model's own answers."""
    first: float = 0.0
    """Share of the open questions about the first picture, which hides the object."""
    clear: float = 0.0
    """Share of the open questions about the clear picture; the others are about any picture of the path."""
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    """Scenario -> weight in drawing plays; questions after solved examples ignore it."""


SPEAKING = Mixture({"choice": 55, "open": 25, "long": 8, "text": 12})
ASKING = Mixture({"choice": 40, "open": 46, "long": 4, "text": 10}, first=0.45, clear=0.4)
FINISHING = Mixture(
    {"choice": 22, "open": 64, "long": 4, "text": 10}, first=0.5, clear=0.45,
    weights={"ROD": 0.7, "VSOD": 1.8, "MVP-N": 2.4, "IN-C": 3.0, "QD": 0.7, "CIT": 1.2, "COCO": 1.0},
)  # fmt: skip
"""More of what the examination after ``ask`` showed to be weak: faults of photos, blank boxes, numbers."""


class Conversations:
    """A source of examples from a bank, and from questions without a picture and the frozen model's ``answers``."""

    def __init__(self, bank: Bank, lap: int, answers: Sequence[tuple[str, str]], mixture: Mixture) -> None:
        self.data, self.answers, self.mixture = TrainingData(bank, lap, dict(mixture.weights)), answers, mixture

    def draw(self, rng: Random) -> TrainingExample:
        """Draw an example."""
        makers: dict[str, Callable[[Random], TrainingExample]] = {
            "choice": lambda rng: self.data.short(rng, SHORT), "open": self.open, "long": self.long, "text": self.text,
        }  # fmt: skip
        kinds = self.mixture.kinds
        return makers[rng.choices(list(kinds), list(kinds.values()))[0]](rng)

    def open(self, rng: Random) -> TrainingExample:
        """Draw a question without options, and an answer in a sentence."""
        play = self.data.play(rng)
        bank_view = self.open_view(play, rng)
        view = SCENARIOS[play.sample.scenario].view(play.sample, bank_view.state)
        question = view.prompt if rng.random() < 0.6 else rng.choice(ENGLISH["open_questions"])
        hint = PROMPTS["OPEN_ENDED_HINT"] if rng.random() < 0.5 else ""
        messages = (
            Message("user", question + hint, (view.image,)),
            Message("assistant", sentence(play, bank_view, view, rng)),
        )
        return TrainingExample(messages, (bank_view.row,), (False, True))

    def open_view(self, play: Play, rng: Random) -> BankView:
        """Draw the picture of an open question."""
        first, clear = self.mixture.first, self.mixture.clear
        number = rng.random() if first + clear else 1.0
        if number < first:
            return play.path[0]
        return play.reference if number < first + clear else draw_view(play, rng)

    def long(self, rng: Random) -> TrainingExample:
        """Draw an episode of a few turns, or a solved example and a question."""
        while True:
            example = self.data.history(rng) if rng.random() < 0.6 else self.data.examples(rng, "icl-1")
            if 1 < len(example.rows) <= MOST_PICTURES:
                return example

    def text(self, rng: Random) -> TrainingExample:
        """Draw a question without a picture, with the answer that the frozen model gives."""
        question, answer = rng.choice(self.answers)
        return TrainingExample((Message("user", question), Message("assistant", answer)), (), (False, True))


def sentence(play: Play, bank_view: BankView, view: View, rng: Random) -> str:
    """Return an answer in English: what is there, or why it cannot be told and what would help."""
    if bank_view.share >= target_policy.KNOWN:
        return statement(play, rng)
    fault = ENGLISH["faults"][play.corruption] if play.corruption >= 0 else "unclear"
    why = rng.choice(ENGLISH["why"][play.sample.scenario]).format(fault=fault)
    ask = target_policy.open_request(play.sample, bank_view.state, view)
    if ask is None:
        return f"{why} I cannot tell what it is."
    wish = ask.rstrip(".")
    return f"{why} " + rng.choice(ENGLISH["asks"]).format(ask=wish[0].lower() + wish[1:])


def statement(play: Play, rng: Random) -> str:
    """Return a sentence that names the object or the number."""
    if play.category < 0:
        numbers = ENGLISH["numbers"]
        number = numbers[play.count] if play.count < len(numbers) else str(play.count)
        return rng.choice((f"I count {number}.", f"I can see {number}."))
    name = NAMES[play.category].lower()
    plural = name in ENGLISH["plurals"]
    noun = name if plural else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    this, verb = ("These are", "are") if plural else ("This is", "is")
    where = ENGLISH["where"][play.sample.scenario]
    return rng.choice(
        (f"It looks like {noun}.", f"I can see {noun}{where}.", f"There {verb} {noun}{where}.", f"{this} {noun}.")
    )
