"""Training examples: the conversations that the sweep sends (``actors.playing.prompts``), with the replies to learn.

Examples depend on the random generator alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from actors.engine.backend import Message, images_of
from actors.playing import prompts
from envs import SCENARIOS
from envs.foreign_suggestions import replace_suggestions
from envs.stimulus import PROMPTS
from envs.types import Mode, View
from proactive_demo.embedded.training import target_policy
from proactive_demo.embedded.training.pictures import LAP, Bank, BankView, Play
from sweeps.conditions import CONDITIONS
from sweeps.protocol import ZERO_SHOT

SHORT = {ZERO_SHOT: 38, "hint": 17, "random-proactive": 20, "reference": 20, "open-ended": 5}
LONG = {"history": 50, "icl-1": 20, "icl-3": 30}
"""Condition -> weight among examples with one picture, and among those with several."""
SCENARIO_WEIGHTS = {"ROD": 0.7, "VSOD": 2.0, "MVP-N": 1.5, "IN-C": 2.0, "QD": 0.7, "CIT": 0.7, "COCO": 2.0}
"""Weight of each scenario in the last stage: small objects, counting and corrupted pictures take longest to learn."""
EXAMPLES_FROM = 8
"""Samples of one lap from which a question and its solved examples are drawn."""
LONGEST_HISTORY = 24


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A conversation, the bank row of each of its pictures in order, and True for each message to learn."""

    conversation: tuple[Message, ...]
    rows: tuple[int, ...]
    taught: tuple[bool, ...]


class TrainingData:
    """A source of examples from a bank."""

    def __init__(self, bank: Bank, lap: int = LAP, weights: dict[str, float] | None = None) -> None:
        self.plays = {name: [play for play in bank.plays if play.sample.scenario == name] for name in SCENARIOS}
        self.weights = weights
        self.lap = lap

    def play(self, rng: Random) -> Play:
        """Draw a play; without weights, all scenarios are equally likely."""
        if self.weights is None:
            return rng.choice(self.plays[rng.choice(list(SCENARIOS))])
        return rng.choice(self.plays[rng.choices(list(self.weights), list(self.weights.values()))[0]])

    def short(self, rng: Random, weights: Mapping[str, int] = SHORT) -> TrainingExample:
        """Draw a question about one picture; ``weights`` are those of the conditions."""
        name = rng.choices(list(weights), list(weights.values()))[0]
        play = self.play(rng)
        bank_view = play.reference if name == "reference" else draw_view(play, rng)
        sample, state = play.sample, bank_view.state
        if name == "random-proactive":
            sample, state = replace_suggestions(sample, rng.randrange(1 << 30)), state._replace(mode=Mode.RANDOM)
        view = SCENARIOS[sample.scenario].view(sample, state, hint=name == "hint")
        if name == "open-ended":
            return open_ended(play, bank_view, view, rng)
        if name == "random-proactive":
            reply = target_policy.random_proactive_reply(sample, state, view, bank_view.share)
        else:
            reply = target_policy.zero_shot_reply(sample, state, view, bank_view.share, name == "hint")
        question = prompts.messages(sample, view, CONDITIONS[name])
        return TrainingExample((*question, Message("assistant", reply)), (bank_view.row,), (False, True))

    def long(self, rng: Random) -> TrainingExample:
        """Draw a question with several pictures: earlier turns, or solved examples."""
        name = rng.choices(list(LONG), list(LONG.values()))[0]
        return self.history(rng) if name == "history" else self.examples(rng, name)

    def history(self, rng: Random) -> TrainingExample:
        """Draw an episode up to some turn; earlier replies are taught only where the policy would give them, too."""
        play = self.play(rng)
        game, sample = SCENARIOS[play.sample.scenario], play.sample
        turns = draw_path(play, rng)
        past, taught = list[prompts.Past](), list[bool]()
        for turn, bank_view in enumerate(turns):
            view = game.view(sample, bank_view.state)
            earlier = [reply for _, reply in past]
            target = target_policy.history_reply(sample, bank_view.state, view, bank_view.share, earlier)
            ask = target_policy.path_request(sample, bank_view.state, view)
            if turn == len(turns) - 1 or ask is None:
                question = prompts.messages(sample, view, CONDITIONS["history"], past)
                marks = [mark for is_taught in taught for mark in (False, is_taught)]
                rows = tuple(bank_view.row for bank_view in turns[: turn + 1])
                return TrainingExample((*question, Message("assistant", target)), rows, (*marks, False, True))
            past.append((view, ask))
            taught.append(ask == target)
        raise AssertionError("a path has at least one view")

    def examples(self, rng: Random, name: str) -> TrainingExample:
        """Draw solved examples of other samples, then a question."""
        condition, scenario = CONDITIONS[name], rng.choice(CONDITIONS[name].scenarios)
        plays = self.plays[scenario]
        start = rng.randrange(len(plays) // self.lap) * self.lap
        others = rng.sample(plays[start : start + self.lap], EXAMPLES_FROM)
        play = others.pop()
        bank_view = draw_view(play, rng)
        reasoned = condition.model_copy(update={"reasoned": rng.random() < 0.15})
        solved = prompts.examples(play.sample, [example.sample for example in others], reasoned, rng.randrange(1 << 30))
        rows = {path: row for example in others for path, row in rows_by_path(example).items()}
        example_rows = [rows[image.path] for image in images_of(solved)]
        view = SCENARIOS[scenario].view(play.sample, bank_view.state)
        replies = [message.text for message in solved if message.role == "assistant"]
        reply = target_policy.imitating_reply(
            play.sample, bank_view.state, view, bank_view.share, replies, condition.shots
        )
        question = prompts.messages(play.sample, view, condition, (), solved)
        return TrainingExample(
            (*question, Message("assistant", reply)), (*example_rows, bank_view.row), (*(False for _ in question), True)
        )


def rows_by_path(play: Play) -> dict[str, int]:
    """Return path -> row of each view in the bank; for ROD, a step to one side also serves for its mirror image."""
    game, sample = SCENARIOS[play.sample.scenario], play.sample
    rows = {game.view(sample, bank_view.state).image.path: bank_view.row for bank_view in play.path}
    if sample.scenario == "ROD":
        for frame in (sample.first_frame - 1, sample.first_frame + 1):
            rows.setdefault(game.path(sample, play.path[0].state._replace(frame=frame)), play.path[1].row)
    return rows


def draw_view(play: Play, rng: Random) -> BankView:
    """Draw the first view, any clear view, or any view of the path, each about as often."""
    number = rng.random()
    if number < 0.3:
        return play.path[0]
    clear = [bank_view for bank_view in play.path if bank_view.share >= target_policy.CLEAR]
    return rng.choice(clear if number < 0.65 and clear else play.path)


def draw_path(play: Play, rng: Random) -> list[BankView]:
    """Draw the first views of an episode; some continue beyond the clear view."""
    path = list(play.path)
    count = rng.choices((1, 2, 3, 4, len(path)), (20, 25, 20, 15, 20))[0]
    if rng.random() < 0.06 and play.sample.scenario in ("ROD", "VSOD", "CIT"):
        lap = [*path, *reversed(path[1:-1])]
        return (lap * LONGEST_HISTORY)[: rng.randint(len(path), LONGEST_HISTORY)]
    return path[: min(count, len(path))]


def open_ended(play: Play, bank_view: BankView, view: View, rng: Random) -> TrainingExample:
    """Return a question without options; if the object is hidden, the reply asks (with the hint) or abstains."""
    hinted = rng.random() < 0.5
    text = view.prompt + (PROMPTS["OPEN_ENDED_HINT"] if hinted else "")
    ask = target_policy.request(play.sample, bank_view.state, view) or play.sample.answer
    reply = play.sample.answer if bank_view.share >= target_policy.KNOWN else ask if hinted else "I cannot tell."
    return TrainingExample(
        (Message("user", text, (view.image,)), Message("assistant", reply)), (bank_view.row,), (False, True)
    )


def wordings(data: TrainingData, count: int = 4000) -> list[str]:
    """Return the texts for training the tokenizer: examples with their own seed."""
    rng = Random("wordings")
    examples = [data.short(rng) if rng.random() < 0.7 else data.long(rng) for _ in range(count)]
    return [message.text for example in examples for message in example.conversation]
