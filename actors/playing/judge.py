"""Asks a judge model for its verdict on one open-ended answer, and reads the verdict from its reply.

A verdict is three bits or none: a reply that cannot be read is a reason to ask again, never a zero. The answer is data: it
reaches the judge inside a fence that it cannot forge (``envs.openended``). No cluster and no store is known here.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Generic, TypeVar

from actors.engine.backend import ENDS_EPISODE, Backend, Message, Refused, Reply, Request, Situation
from actors.playing.prompts import open_view
from envs import SCENARIOS
from envs.openended import (
    JUDGE_VERSION,
    Bits,
    accepted_answers,
    instruction,
    read_verdict,
    strict_verdict,
    strip_thinking,
)
from envs.types import Mode, Sample
from sweeps.spec import Cell, Judge

Found = TypeVar("Found")
PACKAGE, MODULE = "proactivebench", "open_ended_gen.py"
RULES = "builtin:rule-judge"
"""Source of the judge by fixed rules."""
STEP = 0x9E3779B97F4A7C15
"""Between the seeds of two attempts; odd, so that no two of them meet."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict, or why there is none."""

    bits: Bits | None
    text: str
    """The last reply, reasoning included."""
    attempts: int
    reason: str
    """Empty where there are bits; else why there are none."""
    first_failed: bool
    """True if the first attempt already could not be read."""
    seconds: float
    prompt_tokens: int
    reply_tokens: int
    cost: float
    """Tokens and cost are those of all attempts."""
    strict: Bits | None = None
    """What the package makes of the first reply; None where none came."""


@dataclass(slots=True)
class Attempts(Generic[Found]):
    """What a judge said about one answer, attempt by attempt."""

    began: float = field(default_factory=perf_counter)
    replies: list[Reply] = field(default_factory=list)
    count: int = 0
    failed: int = 0
    read: Found | None = None
    """What was found in the last reply; None where no reply could be read."""
    reason: str = ""
    """Why nothing was; empty where something was."""

    @property
    def text(self) -> str:
        """The last reply, reasoning included; empty where none came."""
        return self.replies[-1].text if self.replies else ""

    @property
    def prompt_tokens(self) -> int:
        """Of all attempts, as ``reply_tokens`` and ``cost``."""
        return sum(reply.prompt_tokens for reply in self.replies)

    @property
    def reply_tokens(self) -> int:
        return sum(reply.reply_tokens for reply in self.replies)

    @property
    def cost(self) -> float:
        return sum(reply.cost for reply in self.replies)


async def judge(sample: Sample, cell: Cell, answer: str, judge: Judge, backend: Backend, seed: int) -> Judged:
    """Put a model's whole answer to the judge until its verdict can be read, at most ``judge.attempts`` times.

    Every attempt has a seed of its own. Of the answer only what follows the thinking is shown; where nothing does (all
    thinking, or empty) an empty answer is judged. Raises BackendDied (the verdict is pending again), and ValueError where the
    paper's instruction is wanted and the package ``proactivebench`` is absent.
    """
    messages, situation, count = judge_prompt(sample, cell, answer, judge)
    attempts = await ask_judge(
        messages, situation, judge, backend, seed, lambda r: read_verdict(r, sample.scenario, count)
    )
    strict = strict_verdict(attempts.replies[0].text, sample.scenario, count) if attempts.replies else None
    return Judged(
        attempts.read, attempts.text, attempts.count, attempts.reason, attempts.failed > 0, perf_counter() - attempts.began,
        attempts.prompt_tokens, attempts.reply_tokens, attempts.cost, strict,
    )  # fmt: skip


async def ask_judge(
    messages: tuple[Message, ...],
    situation: Situation,
    judge: Judge,
    backend: Backend,
    seed: int,
    read: Callable[[str], Found | None],
) -> Attempts[Found]:
    """Ask the judge until ``read`` finds something in its reply, at most ``judge.attempts`` times; raises BackendDied."""
    attempts = Attempts[Found]()
    for attempt in range(judge.attempts):
        attempts.count += 1
        request = Request(messages, judge.sampling, attempt_seed(seed, attempt), situation)
        try:
            reply = await backend.reply(request)
        except (*ENDS_EPISODE, Refused) as refusal:  # it would be refused again
            attempts.failed += 1
            attempts.reason = f"{'refused' if isinstance(refusal, Refused) else 'unprocessable'}: {refusal}"
            return attempts
        attempts.replies.append(reply)
        attempts.read = read(reply.text)
        if attempts.read is not None:
            attempts.reason = ""
            return attempts
        attempts.failed += 1
        attempts.reason = unreadable_reason(reply)
    return attempts


def judge_prompt(sample: Sample, cell: Cell, answer: str, judge: Judge) -> tuple[tuple[Message, ...], Situation, int]:
    """The judge's conversation, the situation behind it, and how many marks its verdict must have."""
    condition = cell.condition
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode)
    view = open_view(sample, state, condition)
    spoken_answer = strip_thinking(answer) or ""
    answers = accepted_answers(sample, reference=condition.mode is Mode.REFERENCE)
    write = instructed if judge.instruction == "ours" else paper_messages
    return (
        write(view.prompt, answers, spoken_answer),
        Situation(sample, state, view, answer=spoken_answer),
        len(answers),
    )


def instructed(question: str, answers: Sequence[str], answer: str) -> tuple[Message, ...]:
    """Our instruction as a conversation."""
    return (Message("user", instruction(question, answers, answer)),)


def attempt_seed(seed: int, attempt: int) -> int:
    """The decoding seed of one attempt: 63 bits."""
    return (seed + attempt * STEP) & 0x7FFFFFFFFFFFFFFF


def unreadable_reason(reply: Reply) -> str:
    """Why a reply is no verdict."""
    if strip_thinking(reply.text) is None:
        return "cut off inside its thinking"
    if reply.finish == "length":
        return "cut off before its verdict"
    return "no list of 0 and 1 of the right length"


# -- the paper's own instruction ---------------------------------------------------------------------------------------
def paper_messages(question: str, answers: Sequence[str], answer: str) -> tuple[Message, ...]:
    """The package's conversation, its wording read from the installed package; raises ValueError when it is absent.

    The answer stands in it undelimited and whole, as the paper has it (``get_oeg_judge_messages``).
    """
    system, user = read_paper_wording()
    filled = user.format(user_prompt=question, correct_answers=list(answers), generated_answer=answer)
    return Message("system", system), Message("user", filled)


@cache
def read_paper_wording() -> tuple[str, str]:
    """System prompt and user template, as they stand in the package's source; nothing of it is executed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            "the judge's instruction 'paper' is read from the package proactivebench, which is not installed: "
            "pip install 'proactive-sweep[paper]' (Python 3.12 or newer), or take instruction = \"ours\""
        )
    source = Path(spec.submodule_search_locations[0], MODULE).read_text("utf-8")
    texts = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    return texts["SYSTEM_PROMPT"], texts["USER_PROMPT"]


def instruction_hash(judge: Judge) -> str:
    """Which instruction, and a hash of its wording: ``judge-1:…`` or ``paper:…``; raises as ``papers_wording``."""
    if judge.instruction == "paper":
        name, wording = "paper", "\0".join(read_paper_wording())
    else:
        name, wording = JUDGE_VERSION, instruction("question", ("one", "two"), "answer")
    return f"{name}:{sha256(wording.encode()).hexdigest()[:16]}"
