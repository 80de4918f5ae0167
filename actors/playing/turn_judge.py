"""Judges each answer of an ``oeg-multi`` episode while it waits; the game continues with the option that the marks select.

If no marks can be read, ``NoVerdict`` ends the episode as an error, which is never scored as zero.
"""

import json
from hashlib import sha256
from typing import NamedTuple

from actors.engine.backend import Backend, Message, Situation
from actors.playing.judge import RULES, ask_judge
from actors.playing.judge_trial import JudgeTrial
from envs import dialogue, rulejudge
from envs.openended import read_marks
from envs.thoughts import strip_thinking
from envs.types import Sample, State, View
from sweeps.spec import Judge
from sweeps.values import digest


class NoVerdict(Exception):
    """The judge gave no readable reply in any attempt."""


class JudgedOption(NamedTuple):
    """The option that a judge assigns to an answer."""

    option: str
    """As ``envs.dialogue.option_from_marks`` returns it; empty if the answer names none."""
    text: str
    """The judge's reply."""


class TurnJudge:
    """A judge with its engine."""

    def __init__(self, judge: Judge, backend: Backend) -> None:
        self.spec, self.backend, self.key = judge, backend, turn_judge_key(judge)
        self.trial = JudgeTrial(judge.model.name)

    async def read(self, sample: Sample, state: State, view: View, key: str, answer: str) -> JudgedOption:
        """Judge the reply ``answer`` at this state of the episode ``key``.

        Raises NoVerdict and BackendDied, and ModelStopped if the judge has failed its trial (``JudgeTrial``).
        """
        messages, situation, marks = turn_judge_prompt(sample, state, view, answer)
        seed = int(digest(f"{key}/{state.turn}/{self.key}", 7), 16)
        async with self.trial.admit() as outcome:
            attempts = await ask_judge(
                messages, situation, self.spec, self.backend, seed, lambda text: read_marks(text, marks)
            )
            outcome.reason = attempts.reason
        if attempts.verdict is None:
            raise NoVerdict(f"{self.spec.model.name} gave no verdict on turn {state.turn}: {attempts.reason}")
        return JudgedOption(dialogue.option_from_marks(sample, state, attempts.verdict), attempts.text)


def turn_judge_prompt(
    sample: Sample, state: State, view: View, answer: str
) -> tuple[tuple[Message, ...], Situation, int]:
    """Return the judge's conversation, its situation, and the number of marks that a verdict must have.

    The judge sees only what follows the model's thinking.
    """
    spoken_answer, lines = strip_thinking(answer) or "", dialogue.turn_choices(sample, state).lines
    situation = Situation(sample, state, view, answer=spoken_answer, dialogue=True)
    return (Message("user", dialogue.turn_instruction(view.prompt, lines, spoken_answer)),), situation, len(lines)


def turn_judge_key(judge: Judge) -> str:
    """Return the judge's part of an episode key: name and hash of what changes its verdicts (``rule-judge/turns-1-3fa9c1d2``)."""
    wording = dialogue.turn_instruction("question", ("one", "two"), "answer")
    identity = [judge.model.identity, judge.sampling.identity, judge.attempts, sha256(wording.encode()).hexdigest()]
    identity += [rulejudge.fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{dialogue.VERSION}-{digest(json.dumps(identity, sort_keys=True), 4)}"
