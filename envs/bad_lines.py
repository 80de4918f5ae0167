"""Bad lines of a data file: the sentence that refuses it, or with ``--skip-bad`` the record of what was left out.

Equal files give equal records, so that a run folder tells whether the same lines were left out before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

SHOWN = 3
"""Bad lines of a file whose reasons a record keeps: the first ones."""


@dataclass(frozen=True)
class Problem:
    """One bad line or picture, as a sentence."""

    file: str
    line: int
    """0 where the whole file is meant."""
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class SkippedLines:
    """The bad lines of one scenario's file, which nobody plays."""

    scenario: str
    lines: int
    """The number of these lines."""
    numbers: str
    """Hash of their line numbers, 16 hex digits."""
    first: tuple[str, ...]
    """The first ``SHOWN`` as sentences."""

    def __str__(self) -> str:
        more = f"; and {self.lines - len(self.first)} more" if self.lines > len(self.first) else ""
        return f"{bad_line_count(self.lines)} of {self.scenario}: {'; '.join(self.first)}{more}"

    @property
    def identity(self) -> tuple[str, int, str]:
        """Return what identifies these lines, whatever the wording of the reasons."""
        return self.scenario, self.lines, self.numbers

    def as_json(self) -> dict[str, Any]:
        """A value that ``parse_skipped_lines`` reads."""
        return asdict(self)


def skipped_lines(problems: Mapping[str, Sequence[Problem]]) -> tuple[SkippedLines, ...]:
    """The record of each scenario that has bad lines."""
    return tuple(
        SkippedLines(name, len(bad), _hash(problem.line for problem in bad), tuple(map(str, bad[:SHOWN])))
        for name, bad in problems.items()
        if bad
    )


def parse_skipped_lines(content: Any) -> tuple[SkippedLines, ...]:
    """The records of a run folder; raises TypeError, KeyError or ValueError for what is none."""
    return tuple(
        SkippedLines(str(one["scenario"]), int(one["lines"]), str(one["numbers"]), tuple(map(str, one["first"])))
        for one in content
    )


def refusal(problems: Sequence[Problem], folder: object) -> str:
    """Why a file is not loaded, and what to type; a file that cannot be read at all can be left out by nobody."""
    more = f" (and {len(problems) - 1} more: `proactive-sweep data check {folder}` lists them)" if problems[1:] else ""
    lines = [problem for problem in problems if problem.line]
    if len(lines) < len(problems):
        return f"{problems[0]}{more}"
    return (
        f"{problems[0]}{more}; mend the file, or type --skip-bad (in a sweep file: skip_bad = true) to"
        f" leave {bad_line_count(len(lines))} out"
    )


def skipped_note(problems: Sequence[Problem]) -> str:
    """Return a note for a sample that is not found, whose line may be a bad one; empty if no line was skipped."""
    if not problems:
        return ""
    return f" ({bad_line_count(len(problems))} of its file left out: `proactive-sweep data check` lists them; {problems[0]})"


def bad_line_count(lines: int) -> str:
    """``1 bad line``, ``1,204 bad lines``."""
    return "1 bad line" if lines == 1 else f"{lines:,} bad lines"


def _hash(numbers: Iterable[int]) -> str:
    return blake2b(",".join(map(str, numbers)).encode(), digest_size=8).hexdigest()
