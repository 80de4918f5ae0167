"""Reads one answer of several while its episode waits: the judge's marks become the option that the game goes on with.

A judge that gives no marks raises ``NoVerdict``: its episode is an error, never a zero. No cluster and no store is known here.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NamedTuple

from actors.engine.backend import Backend, Message, Situation
from actors.playing.judge import RULES, ask_judge
from envs import dialogue, rulejudge
from envs.openended import read_marks, strip_thinking
from envs.types import Sample, State, View
from sweeps.spec import Judge
from sweeps.values import digest


class NoVerdict(Exception):
    """The judge's reply could not be read, in any of its attempts."""


class JudgedOption(NamedTuple):
    """One answer as the judge read it."""

    option: str
    """The option that the answer stands for (``envs.dialogue.option_from_marks``), empty where it names none."""
    text: str
    """The judge's reply."""


class TurnJudge:
    """A judge beside the engine of those whom it reads."""

    def __init__(self, judge: Judge, backend: Backend) -> None:
        self.spec, self.backend, self.key = judge, backend, turn_judge_key(judge)

    async def read(self, sample: Sample, state: State, view: View, key: str, answer: str) -> JudgedOption:
        """What the episode ``key`` is answered at this state; ``answer`` is the model's whole reply.

        Raises NoVerdict, and BackendDied (the episode is pending again).
        """
        messages, situation, count = turn_judge_prompt(sample, state, view, answer)
        seed = int(digest(f"{key}/{state.turn}/{self.key}", 7), 16)
        attempts = await ask_judge(
            messages, situation, self.spec, self.backend, seed, lambda text: read_marks(text, count)
        )
        if attempts.read is None:
            raise NoVerdict(f"{self.spec.model.name} gave no verdict on turn {state.turn}: {attempts.reason}")
        return JudgedOption(dialogue.option_from_marks(sample, state, attempts.read), attempts.text)


def turn_judge_prompt(
    sample: Sample, state: State, view: View, answer: str
) -> tuple[tuple[Message, ...], Situation, int]:
    """The judge's conversation about an answer, the situation behind it, and how many marks its reply must have.

    Of the answer only what follows the thinking is shown, as in one-turn generation.
    """
    spoken_answer, lines = strip_thinking(answer) or "", dialogue.turn_choices(sample, state).lines
    situation = Situation(sample, state, view, answer=spoken_answer, dialogue=True)
    return (Message("user", dialogue.turn_instruction(view.prompt, lines, spoken_answer)),), situation, len(lines)


def turn_judge_key(judge: Judge) -> str:
    """``rule-judge/turns-1-3fa9c1d2``: which judge reads, and a hash of what changes its reading; part of episodes' keys."""
    wording = dialogue.turn_instruction("question", ("one", "two"), "answer")
    identity = [judge.model.identity, judge.sampling.identity, judge.attempts, sha256(wording.encode()).hexdigest()]
    identity += [rulejudge.turn_fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{dialogue.VERSION}-{digest(json.dumps(identity, sort_keys=True), 4)}"
