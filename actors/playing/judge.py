"""Asks a judge model for its verdict on one open-ended answer, after its episode or at every turn of ``oeg-multi``.

After an unreadable reply the judge is asked again; an answer without a verdict is never scored as zero, and a judge that reads
nothing is stopped. Our instruction puts the answer inside a fence that it cannot forge (``envs.openended``); the paper's does not
delimit it.
"""

import ast
import asyncio
import importlib.util
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

from actors.engine.backend import ENDS_EPISODE, Backend, Message, ModelStopped, Refused, Reply, Request, Situation
from actors.playing.prompts import open_view
from envs import SCENARIOS, dialogue, openended, rulejudge
from envs.installed import PackageError
from envs.thoughts import strip_thinking
from envs.types import Mode, Sample, State, View
from sweeps.spec import Cell, Judge
from sweeps.values import digest

Verdict = TypeVar("Verdict")
PACKAGE, MODULE = "proactivebench", "open_ended_gen.py"
RULES = "builtin:rule-judge"
"""Source of the judge that applies fixed rules instead of a model."""
FIRST_ANSWERS = 20
"""A judge that has given no verdict after this many answers is stopped."""
LONG_TRIAL = 100
"""After this many answers, a judge is stopped unless at least ``MIN_SHARE`` of them have a verdict."""
MIN_SHARE = 0.05


@dataclass(slots=True)
class Judged(Generic[Verdict]):
    """A judge's replies about one answer, and the verdict in the last of them."""

    verdict: Verdict | None = None
    """None if no reply could be read."""
    reason: str = ""
    """Why there is no verdict; empty if there is one."""
    attempts: int = 0
    """Number of requests; the last may have failed without a reply."""
    replies: list[Reply] = field(default_factory=list)
    seconds: float = 0.0
    """Seconds that the judge took, over all requests."""
    strict: openended.Bits | None = None
    """The verdict that the package's parser reads in the first reply; None if there was no reply."""

    @property
    def text(self) -> str:
        """The last reply, reasoning included; empty if there was none."""
        return self.replies[-1].text if self.replies else ""


async def judge_answer(
    sample: Sample, cell: Cell, answer: str, judge: Judge, backend: Backend, seed: int
) -> Judged[openended.Bits]:
    """Ask the judge about a model's answer until its verdict can be read, at most ``judge.attempts`` times.

    The judge sees only what follows the model's thinking; if nothing follows, it judges an empty answer. Raises BackendDied
    (the verdict is pending again), and PackageError if the instruction is the paper's and its package is not installed.
    """
    messages, situation, marks = judge_prompt(sample, cell, answer, judge)
    parse = partial(openended.read_verdict, scenario=sample.scenario, count=marks)
    judged = await ask_judge(messages, situation, judge, backend, seed, parse)
    if judged.replies:
        judged.strict = openended.strict_verdict(judged.replies[0].text, sample.scenario, marks)
    return judged


async def ask_judge(
    messages: tuple[Message, ...],
    situation: Situation,
    judge: Judge,
    backend: Backend,
    seed: int,
    parse: Callable[[str], Verdict | None],
) -> Judged[Verdict]:
    """Ask, with a new seed per attempt, until ``parse`` reads a verdict or no attempt is left; raises BackendDied."""
    start, judged = perf_counter(), Judged[Verdict]()
    while judged.verdict is None and judged.attempts < judge.attempts:
        number, judged.attempts = judged.attempts, judged.attempts + 1
        try:
            reply = await backend.reply(Request(messages, judge.sampling, derive_seed(seed, number), situation))
        except (*ENDS_EPISODE, Refused) as problem:  # another attempt would meet it again
            judged.reason = f"{'refused' if isinstance(problem, Refused) else 'unprocessable'}: {problem}"
            break
        judged.replies.append(reply)
        judged.verdict = parse(reply.text)
        judged.reason = unreadable_reason(reply) if judged.verdict is None else ""
    judged.seconds = perf_counter() - start
    return judged


def judge_prompt(sample: Sample, cell: Cell, answer: str, judge: Judge) -> tuple[tuple[Message, ...], Situation, int]:
    """Return the judge's conversation, its situation, and the number of marks (0 or 1) that a verdict must have."""
    condition = cell.condition
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = open_view(sample, state, condition)
    spoken_answer = strip_thinking(answer) or ""
    answers = openended.accepted_answers(sample, reference=condition.mode is Mode.REFERENCE)
    if judge.instruction == "ours":
        messages: tuple[Message, ...] = (Message("user", openended.instruction(view.prompt, answers, spoken_answer)),)
    else:
        messages = paper_messages(view.prompt, answers, spoken_answer)
    return messages, Situation(sample, state, view, answer=spoken_answer), len(answers)


def derive_seed(seed: int, number: int) -> int:
    """Return the decoding seed of a turn or attempt: 63 bits, different for every ``number``."""
    return (seed + number * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF


def unreadable_reason(reply: Reply) -> str:
    """Return why a reply has no verdict."""
    if strip_thinking(reply.text) is None or (reply.thought and not reply.text):
        return "cut off inside its thinking"
    if reply.finish == "length":
        return "cut off before its verdict"
    return "no list of 0 and 1 of the right length"


# -- a judge that reads nothing ----------------------------------------------------------------------------------------
def reads_nothing(verdicts: int, judged: int) -> bool:
    """Return True if a judge gave a verdict on none of the judged answers, or on too few of at least ``LONG_TRIAL``."""
    return (judged > 0 and verdicts == 0) or (judged >= LONG_TRIAL and verdicts < MIN_SHARE * judged)


@dataclass
class JudgeTrial:
    """The counts of one judge in one worker.

    Until one answer has a verdict, at most ``FIRST_ANSWERS`` answers are sent to the judge; the others wait.
    """

    name: str
    passed: bool = False
    """True once enough answers have a verdict, in this worker or elsewhere."""
    verdicts: int = 0
    """Answers that got a verdict."""
    judged_count: int = 0
    """All answers that were judged, with or without a verdict."""
    running: int = 0
    """Answers that are being judged."""
    last_reason: str = ""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, judging: Callable[[], Awaitable[Judged[Verdict]]]) -> Judged[Verdict]:
        """Judge one answer once it is admitted, and count it; raises ModelStopped after a failed trial."""
        async with self.changed:
            await self.changed.wait_for(
                lambda: self.passed or self.failed or self.verdicts or self.judged_count + self.running < FIRST_ANSWERS
            )
            if self.failed:
                count = f"{self.verdicts or 'no'} verdict{'s' * (self.verdicts > 1)}"
                raise ModelStopped(
                    f"{self.name} gave {count} on its first {self.judged_count} answers, so it is stopped and asked no more;"
                    f" the last: {self.last_reason}"
                )
            self.running += 1
        try:
            judged = await judging()
            self.judged_count += 1
            self.verdicts += not judged.reason
            self.last_reason = judged.reason or self.last_reason
            self.passed |= self.judged_count >= LONG_TRIAL and not self.failed
            return judged
        finally:
            self.running -= 1
            async with self.changed:
                self.changed.notify_all()

    @property
    def failed(self) -> bool:
        """True if the judge is to be stopped."""
        is_tried = not self.passed and self.judged_count >= FIRST_ANSWERS
        return is_tried and reads_nothing(self.verdicts, self.judged_count)


# -- answers of oeg-multi ----------------------------------------------------------------------------------------------
class NoVerdict(Exception):
    """The judge gave no readable reply in any attempt: its episode ends as an error, which is never scored as zero."""


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
        messages = (Message("user", openended.instruction(view.prompt, lines, spoken_answer, dialogue.TURN_TASK)),)
        situation = Situation(sample, state, view, answer=spoken_answer, dialogue=True)
        seed = int(digest(f"{key}/{state.turn}/{self.key}", 7), 16)
        parse = partial(openended.read_marks, count=len(lines))
        judged = await self.trial.run(lambda: ask_judge(messages, situation, self.spec, self.backend, seed, parse))
        if judged.verdict is None:
            raise NoVerdict(f"{self.spec.model.name} gave no verdict on turn {state.turn}: {judged.reason}")
        return dialogue.option_from_marks(sample, state, judged.verdict), judged.text


def turn_judge_key(judge: Judge) -> str:
    """Return the judge's part of an episode key: name and hash of what changes its verdicts (``rule-judge/turns-1-3fa9c1d2``)."""
    wording = openended.instruction("question", ("one", "two"), "answer", dialogue.TURN_TASK)
    return name_judge(judge, dialogue.VERSION, sha256(wording.encode()).hexdigest())


# -- the paper's own instruction ---------------------------------------------------------------------------------------
def paper_messages(question: str, answers: Sequence[str], answer: str) -> tuple[Message, ...]:
    """Return the package's conversation (``get_oeg_judge_messages``), in which nothing delimits the answer.

    Raises PackageError if the package is not installed.
    """
    system, user = read_paper_wording()
    filled = user.format(user_prompt=question, correct_answers=list(answers), generated_answer=answer)
    return Message("system", system), Message("user", filled)


@cache
def read_paper_wording() -> tuple[str, str]:
    """Return system prompt and user template from the package's source, which is parsed and never executed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PackageError(
            "the judge's instruction 'paper' is read from the package proactivebench, which is not installed: "
            "pip install 'proactive-sweep[paper]' (Python 3.12 or newer), or set instruction = \"ours\""
        )
    source = Path(spec.submodule_search_locations[0], MODULE).read_text("utf-8")
    texts = dict[str, Any]()
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign([ast.Name(name), *_], ast.Constant(text)):
                texts[name] = text
    return texts["SYSTEM_PROMPT"], texts["USER_PROMPT"]


def name_judge(judge: Judge, version: str, wording: str) -> str:
    """Return the judge's name and ``version`` with a hash of what changes its verdicts: ``qwen3-8b/ours-3fa9c1d2``."""
    identity = [judge.model.identity, judge.sampling.identity, judge.attempts, wording]
    identity += [rulejudge.fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{version}-{digest(json.dumps(identity, sort_keys=True), 4)}"
