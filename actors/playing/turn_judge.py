"""Judges each answer of an ``oeg-multi`` episode while it waits; the game continues with the option that the marks select.

If no marks can be read, ``NoVerdict`` ends the episode as an error, which is never scored as zero.
"""

from functools import partial
from hashlib import sha256

from actors.engine.backend import Backend, Message, Situation
from actors.playing.judge import ask_judge, name_judge
from actors.playing.judge_trial import JudgeTrial
from envs import dialogue
from envs.openended import instruction, read_marks
from envs.thoughts import strip_thinking
from envs.types import Sample, State, View
from sweeps.spec import Judge
from sweeps.values import digest


class NoVerdict(Exception):
    """The judge gave no readable reply in any attempt."""


class TurnJudge:
    def __init__(self, judge: Judge, backend: Backend) -> None:
        self.spec, self.backend, self.key = judge, backend, turn_judge_key(judge)
        self.trial = JudgeTrial(judge.model.name)

    async def read(self, sample: Sample, state: State, view: View, key: str, answer: str) -> tuple[str, str]:
        """Return the option that the reply ``answer`` stands for (``envs.dialogue.option_from_marks``), and the judge's reply.

        The judge sees only what follows the model's thinking. Raises NoVerdict and BackendDied, and ModelStopped if the judge has
        failed its trial (``JudgeTrial``).
        """
        spoken_answer, lines = strip_thinking(answer) or "", dialogue.turn_choices(sample, state).lines
        messages = (Message("user", instruction(view.prompt, lines, spoken_answer, dialogue.TURN_TASK)),)
        situation = Situation(sample, state, view, answer=spoken_answer, dialogue=True)
        seed = int(digest(f"{key}/{state.turn}/{self.key}", 7), 16)
        parse = partial(read_marks, count=len(lines))
        judged = await self.trial.run(lambda: ask_judge(messages, situation, self.spec, self.backend, seed, parse))
        if judged.verdict is None:
            raise NoVerdict(f"{self.spec.model.name} gave no verdict on turn {state.turn}: {judged.reason}")
        return dialogue.option_from_marks(sample, state, judged.verdict), judged.text


def turn_judge_key(judge: Judge) -> str:
    """Return the judge's part of an episode key: name and hash of what changes its verdicts (``rule-judge/turns-1-3fa9c1d2``)."""
    wording = instruction("question", ("one", "two"), "answer", dialogue.TURN_TASK)
    return name_judge(judge, dialogue.VERSION, sha256(wording.encode()).hexdigest())
