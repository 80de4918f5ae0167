"""Open-ended generation: accepted answers, the judge's instruction, and its reply as bits.

A reply without a list of the right length is unjudged, never a zero.

Rules: ``get_open_ended_gen_answers`` of the package ``proactivebench`` 0.1.1 and its module ``open_ended_gen``. The
judge's instruction is ours; docs/decisions/0003-open-ended.md explains the differences.
"""

import re
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from envs import SCENARIOS
from envs.stimulus import ACCEPTED, ALSO_ACCEPTED
from envs.thoughts import strip_thinking
from envs.types import Sample

JUDGE_VERSION = "judge-1"
"""Part of every verdict's key: raise it when the text of ``instruction`` (judge.toml) changes."""

THRESHOLDS = {"ROD": 2, "VSOD": 3, "MVP-N": 2, "IN-C": 1, "QD": 1, "CIT": 2, "COCO": 2}
"""Scenario -> number of leading positions of a verdict that are suggestions (package: ``PREDICTION_THR``); all but the last one
in scenarios of other packages."""

HEAD, TAIL = 24_000, 8_000
"""Characters of an answer's beginning and end that a judge reads: about 8,000 tokens, which fit any judge's context."""


# -- accepted answers --------------------------------------------------------------------------------------------------
def accepted_answers(sample: Sample, reference: bool = False) -> tuple[str, ...]:
    """Return the accepted answers at the first state, in the package's order; a category with a comma counts as two.

    ``reference`` adds the category where the package's list has none (ROD, MVP-N), because the clear picture shows it.
    """
    asks_only = sample.scenario in ("ROD", "MVP-N") and not reference
    answers = (*_accepted_asks(sample), *(() if asks_only else (sample.answer,)))
    joined = ",".join(answer.replace(".", "") for answer in answers)
    return tuple(piece.strip().replace(".", "") for piece in f"{joined}.".split(",") if piece.strip())


def _accepted_asks(sample: Sample) -> Sequence[str]:
    if sample.scenario in ACCEPTED:
        return ACCEPTED[sample.scenario]
    game = SCENARIOS[sample.scenario]
    return (*game.askable(sample, game.initial(sample)), *ALSO_ACCEPTED.get(sample.scenario, ()))


# -- a judge's reply ---------------------------------------------------------------------------------------------------
class Bits(NamedTuple):
    """A judge's verdict on an answer."""

    category: bool
    suggestion: bool

    @property
    def aggregate(self) -> bool:
        return self.category or self.suggestion


LISTS = re.compile(r"[01](?:\s*,\s*[01])*")
NOTHING = Bits(category=False, suggestion=False)


def read_verdict(text: str, scenario: str, count: int) -> Bits | None:
    """Read a judge's reply about ``count`` accepted answers; None if it is unjudged.

    A reply is unjudged if it ends inside its thinking, has no list of 0 and 1, or if its last list does not have ``count``
    marks; the package scores these as zeros.
    """
    return _as_bits(read_marks(text, count), scenario)


def strict_verdict(text: str, scenario: str, count: int) -> Bits:
    """Read a reply as the package does: zeros if it is unjudged, and the text of an unclosed thinking block counts.

    Source: ``parse_judge_prediction`` and the cut after the last ``</think>`` in the package's example.
    """
    return _as_bits(_last_list(text.rpartition("</think>")[2], count), scenario) or NOTHING


def read_marks(text: str, count: int) -> tuple[bool, ...] | None:
    """Read the ``count`` marks of a judge's reply; None if it is unjudged."""
    spoken = strip_thinking(text)
    return None if spoken is None else _last_list(spoken, count)


def _last_list(text: str, count: int) -> tuple[bool, ...] | None:
    lists = LISTS.findall(text)
    marks = tuple(mark.strip() == "1" for mark in lists[-1].split(",")) if lists else ()
    return marks if marks and len(marks) == count else None


def _as_bits(marks: tuple[bool, ...] | None, scenario: str) -> Bits | None:
    if marks is None:
        return None
    border = THRESHOLDS.get(scenario, len(marks) - 1)
    return Bits(category=any(marks[border:]), suggestion=any(marks[:border]))


# -- the judge's instruction ---------------------------------------------------------------------------------------
WORDING = tomllib.loads(Path(__file__).with_name("judge.toml").read_text("utf-8"))
TASK: str = WORDING["task"].format(**WORDING["answer"])


def instruction(question: str, answers: Sequence[str], answer: str, task: str = TASK) -> str:
    """Return the judge's message: the task, the accepted answers by number, and the answer inside a fence.

    The answer cannot forge the fence, which holds a hash of the answer. Markers that engines read as the end of a message are
    defused, and only the first ``HEAD`` and last ``TAIL`` characters of a very long answer are included.
    """
    safe_answer = defuse_markers(shorten(answer)).encode("utf-8", "replace").decode()
    fence = fence_for(safe_answer)
    numbered = "\n".join(f"{number}. {accepted}" for number, accepted in enumerate(answers, 1))
    separated = ", separated by commas" if len(answers) > 1 else ""
    marks = {"fence": fence, "count": len(answers), "separated": separated}
    parts = (
        task,
        f"The question was:\n{defuse_markers(question)}",
        f"The list:\n{numbered}",
        WORDING["data"].format(**marks),
        f"{fence}\n{safe_answer}\n{fence}",
        WORDING["close"].format(**marks),
    )
    return "\n\n".join(parts)


def fence_for(answer: str) -> str:
    """Return a line that holds a hash of ``answer`` and does not occur in it."""
    name = sha256(answer.encode()).hexdigest()[:24]
    while name in answer:
        name = sha256(name.encode()).hexdigest()[:24]
    return f"=== {name} ==="


def shorten(answer: str) -> str:
    """Return the answer, or its beginning and end with a line about the omitted part between them."""
    left_out = len(answer) - HEAD - TAIL
    if left_out <= 0:
        return answer
    return f"{answer[:HEAD]}\n[{left_out} characters left out]\n{answer[-TAIL:]}"


MARKERS = re.compile(r"<(?=[^\s\d=<])|\[(?=/?[A-Z_]{2,}\])|◁(?=\S)")
"""Beginnings of markers for messages, roles and thinking: ``<|im_end|>``, ``[INST]``, ◁think▷."""


def defuse_markers(text: str) -> str:
    """Insert a space after everything that could begin an engine's marker."""
    return MARKERS.sub(lambda start: f"{start.group()} ", text)
