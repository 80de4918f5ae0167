"""Splits what a model wrote into its thoughts and its answer, by the marks that models put around thoughts."""

import re

MAX_THOUGHTS = 32_768
"""Most characters of thoughts that are stored of a reply."""
_NAMES = "think|thinking|thought|reasoning|seed:think"
CLOSING = re.compile(
    rf"</(?:{_NAMES})>|◁/think▷|\[/THINK\]|<\|END_THINKING\|>|assistantfinal"
    rf"|(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final[^<]{{0,40}}<\|message\|>|<channel\|>"
)
_OPENING = (
    rf"(?:<(?:{_NAMES})>|◁think▷|\[THINK\]|<\|START_THINKING\|>|<\|channel\|>(?:analysis|commentary)(?:[^<]{{0,40}}<\|message\|>)?"
    r"|<\|channel>thought)"
)
OPENING = re.compile(rf"^[ \t]*(?:<\|start\|>assistant)?{_OPENING}", re.MULTILINE)
_OPENED = re.compile(rf"{_OPENING}\s*\Z")
_AROUND_ANSWER = re.compile(r"<\|(?:begin_of_box|end_of_box|return|end|start)\|>|</?answer>")
"""Marks around an answer: GLM's box, harmony's ends."""


def strip_thinking(text: str) -> str | None:
    """Return the text after the thinking block, or the whole text if it has none; None if a block is never closed.

    The opening tag may be missing, because some chat templates write it into the prompt. It counts only at the start of a
    line, so that text may mention it. The last closing tag counts, as in the package.
    """
    rest = text[_end_of_thoughts(text) :]
    return None if OPENING.search(rest) else rest.strip()


def split_thoughts(text: str, is_cut: bool = False) -> tuple[str, str]:
    """Return the thoughts and the answer of a reply, without marks; the answer is empty if a thought is never closed.

    ``is_cut``: True if a text without a closing mark is a thought, because the prompt opened it or the reply was cut off.
    """
    end, answer = _end_of_thoughts(text), strip_thinking(text)
    if answer is None or (is_cut and not end):
        end, answer = len(text), ""
    thoughts = OPENING.sub("", CLOSING.sub("", text[:end])).strip()
    return thoughts[:MAX_THOUGHTS], tidy_answer(answer)


def tidy_answer(text: str) -> str:
    """Return an answer without the marks and the white space around it."""
    return _AROUND_ANSWER.sub("", text).strip()


def opens_thoughts(prompt: str) -> bool:
    """Return True if a rendered prompt ends with an opened thought."""
    return _OPENED.search(prompt) is not None


def _end_of_thoughts(text: str) -> int:
    """Return where the text continues after its last closing mark; 0 without one."""
    return max((mark.end() for mark in CLOSING.finditer(text)), default=0)
