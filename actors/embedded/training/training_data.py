"""Training examples: conversations word for word as the sweep sends them (``actors.prompts``), with the replies to learn.

What is drawn depends on (seed, step, rank) alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from actors import prompts
from actors.backend import Message
from actors.embedded.training import target_policy
from actors.embedded.training.pictures import LAP, Bank, Play, Seen
from envs import SCENARIOS
from envs.disguise import disguised
from envs.stimulus import OPEN_ENDED_HINT
from envs.types import Mode, View
from sweeps.conditions import CONDITIONS

SHORT = {"zero-shot": 38, "hint": 17, "random-proactive": 20, "reference": 20, "open-ended": 5}
LONG = {"history": 50, "icl-1": 20, "icl-3": 30}
"""Condition -> weight among examples with one picture, and among those with several."""
SCENARIO_WEIGHTS = {"ROD": 0.7, "VSOD": 2.0, "MVP-N": 1.5, "IN-C": 2.0, "QD": 0.7, "CIT": 0.7, "COCO": 2.0}
"""How often each scenario comes in the last stage: small objects, counting and spoiled pictures take longest to learn."""
EXAMPLES_FROM = 8
LONGEST_HISTORY = 24


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A conversation, the bank row of each of its pictures in order, and which messages are taught."""

    conversation: tuple[Message, ...]
    rows: tuple[int, ...]
    taught: tuple[bool, ...]


class TrainingData:
    """Draws examples from a bank."""

    def __init__(self, bank: Bank, lap: int = LAP, weights: dict[str, float] | None = None) -> None:
        self.plays = {name: bank.of(name) for name in SCENARIOS}
        self.weights = weights
        self.lap = lap

    def play(self, rng: Random) -> Play:
        """A play of any scenario, each as often unless weights say otherwise."""
        if self.weights is None:
            return rng.choice(self.plays[rng.choice(list(SCENARIOS))])
        return rng.choice(self.plays[rng.choices(list(self.weights), list(self.weights.values()))[0]])

    def short(self, rng: Random) -> TrainingExample:
        """One question about one picture."""
        name = rng.choices(list(SHORT), list(SHORT.values()))[0]
        play = self.play(rng)
        seen = play.reference if name == "reference" else telling_or_not(play, rng)
        sample, state = play.sample, seen.state
        if name == "random-proactive":
            sample, state = disguised(sample, rng.randrange(1 << 30)), state._replace(mode=Mode.RANDOM)
        view = SCENARIOS[sample.scenario].view(sample, state, hint=name == "hint")
        if name == "open-ended":
            return open_ended(play, seen, view, rng)
        if name == "random-proactive":
            reply = target_policy.disguised(sample, state, view, seen.share)
        else:
            reply = target_policy.plain(sample, state, view, seen.share, name == "hint")
        asked = prompts.messages(sample, view, CONDITIONS[name])
        return TrainingExample((*asked, Message("assistant", reply)), (seen.row,), (False, True))

    def long(self, rng: Random) -> TrainingExample:
        """Several pictures: earlier turns, or solved examples."""
        name = rng.choices(list(LONG), list(LONG.values()))[0]
        return self.history(rng) if name == "history" else self.examples(rng, name)

    def history(self, rng: Random) -> TrainingExample:
        """An episode so far; a reply is taught wherever it is what the model should say."""
        play = self.play(rng)
        game, sample = SCENARIOS[play.sample.scenario], play.sample
        turns = steps_of(play, rng)
        past, taught = list[prompts.Past](), list[bool]()
        for turn, seen in enumerate(turns):
            view = game.view(sample, seen.state)
            wanted = target_policy.remembering(sample, seen.state, view, seen.share, [reply for _, reply in past])
            ask = target_policy.forward(sample, seen.state, view)
            if turn == len(turns) - 1 or ask is None:
                asked = prompts.messages(sample, view, CONDITIONS["history"], past)
                marks = [mark for known in taught for mark in (False, known)]
                rows = tuple(one.row for one in turns[: turn + 1])
                return TrainingExample((*asked, Message("assistant", wanted)), rows, (*marks, False, True))
            past.append((view, ask))
            taught.append(ask == wanted)
        raise AssertionError("a path has at least one view")

    def examples(self, rng: Random, name: str) -> TrainingExample:
        """Solved examples of other samples, then a question."""
        condition, scenario = CONDITIONS[name], rng.choice(CONDITIONS[name].scenarios)
        plays = self.plays[scenario]
        start = rng.randrange(len(plays) // self.lap) * self.lap
        others = rng.sample(plays[start : start + self.lap], EXAMPLES_FROM)
        play = others.pop()
        seen = telling_or_not(play, rng)
        reasoned = condition.model_copy(update={"reasoned": rng.random() < 0.15})
        shown = prompts.examples(play.sample, [other.sample for other in others], reasoned, rng.randrange(1 << 30))
        rows = {path: row for other in others for path, row in pictures_of(other).items()}
        example_rows = [rows[image.path] for message in shown for image in message.images]
        view = SCENARIOS[scenario].view(play.sample, seen.state)
        replies = [message.text for message in shown if message.role == "assistant"]
        reply = target_policy.imitating(play.sample, seen.state, view, seen.share, replies, condition.shots)
        asked = prompts.messages(play.sample, view, condition, (), shown)
        return TrainingExample(
            (*asked, Message("assistant", reply)), (*example_rows, seen.row), (*(False for _ in asked), True)
        )


def pictures_of(play: Play) -> dict[str, int]:
    """Path of each drawn view -> its row; ROD's path went one way, its mirror image stands for the first step of the other."""
    game, sample = SCENARIOS[play.sample.scenario], play.sample
    rows = {game.view(sample, seen.state).image.path: seen.row for seen in play.path}
    if sample.scenario == "ROD":
        for frame in (sample.first_frame - 1, sample.first_frame + 1):
            rows.setdefault(game.path(sample, play.path[0].state._replace(frame=frame)), play.path[1].row)
    return rows


def telling_or_not(play: Play, rng: Random) -> Seen:
    """A view: the first as often as any clear one, and the rest of the path."""
    kind = rng.random()
    if kind < 0.3:
        return play.path[0]
    clear = [seen for seen in play.path if seen.share >= target_policy.CLEAR]
    if kind < 0.65 and clear:
        return rng.choice(clear)
    return rng.choice(play.path)


def steps_of(play: Play, rng: Random) -> list[Seen]:
    """The first so many views of an episode, now and then one that goes on past the clear view."""
    path = list(play.path)
    count = rng.choices((1, 2, 3, 4, len(path)), (20, 25, 20, 15, 20))[0]
    if rng.random() < 0.06 and play.sample.scenario in ("ROD", "VSOD", "CIT"):
        lap = [*path, *reversed(path[1:-1])]
        return (lap * LONGEST_HISTORY)[: rng.randint(len(path), LONGEST_HISTORY)]
    return path[: min(count, len(path))]


def open_ended(play: Play, seen: Seen, view: View, rng: Random) -> TrainingExample:
    """A question without options: the category, or with the hint what would help."""
    hinted = rng.random() < 0.5
    text = view.prompt + (OPEN_ENDED_HINT if hinted else "")
    ask = target_policy.request(play.sample, seen.state, view) or play.sample.answer
    reply = play.sample.answer if seen.share >= target_policy.KNOWN else ask if hinted else "I cannot tell."
    return TrainingExample(
        (Message("user", text, (view.image,)), Message("assistant", reply)), (seen.row,), (False, True)
    )


def wordings(data: TrainingData, count: int = 4000) -> list[str]:
    """The texts a tokenizer is learned from: examples of a seed of their own."""
    rng = Random("wordings")
    drawn = [data.short(rng) if rng.random() < 0.7 else data.long(rng) for _ in range(count)]
    return [message.text for example in drawn for message in example.conversation]
