"""Bad lines of a data file: the message that refuses the file, or with ``skip_bad`` the record of the skipped lines.

Equal files give equal records, so that a run folder can compare them.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from envs.plural import pluralize

SHOWN = 3
"""Number of bad lines whose reasons a record keeps."""


@dataclass(frozen=True)
class Problem:
    """One bad line or picture, as a sentence."""

    file: str
    line: int
    """0 for the file itself."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f', line {self.line}' if self.line else ''}: {self.reason}"


@dataclass(frozen=True)
class SkippedLines:
    """The bad lines of one scenario's file."""

    scenario: str
    lines: int
    numbers: str
    """Hash of their line numbers, 16 hex digits."""
    first: tuple[str, ...]
    """The first ``SHOWN`` lines as sentences."""

    def __str__(self) -> str:
        rest = f"; and {self.lines - len(self.first)} more" if self.lines > len(self.first) else ""
        return f"{pluralize(self.lines, 'bad line')} of {self.scenario}: {'; '.join(self.first)}{rest}"

    @property
    def identity(self) -> tuple[str, int, str]:
        """Return the identity of these lines, without the wording of the reasons."""
        return self.scenario, self.lines, self.numbers


def skipped_lines(problems: Mapping[str, Sequence[Problem]]) -> tuple[SkippedLines, ...]:
    """Return the record of each scenario that has bad lines."""
    return tuple(
        SkippedLines(name, len(bad), _hash(problem.line for problem in bad), tuple(map(str, bad[:SHOWN])))
        for name, bad in problems.items()
        if bad
    )


def parse_skipped_lines(content: Any) -> tuple[SkippedLines, ...]:
    """Parse the records of a run folder; raises TypeError, KeyError or ValueError for anything else."""
    return tuple(
        SkippedLines(str(row["scenario"]), int(row["lines"]), str(row["numbers"]), tuple(map(str, row["first"])))
        for row in content
    )


def refusal(problems: Sequence[Problem], folder: object) -> str:
    """Return why a file is not loaded, and what to type; ``skip_bad`` cannot skip an unreadable file."""
    command = f"proactive-sweep data check {shlex.quote(str(folder))}"
    rest = f" (and {len(problems) - 1} more: `{command}` lists them)" if problems[1:] else ""
    if not all(problem.line for problem in problems):
        return f"{problems[0]}{rest}"
    return (
        f"{problems[0]}{rest}; correct the file, or type --set skip_bad=true (in a sweep file: skip_bad = true) to"
        f" leave {pluralize(len(problems), 'bad line')} out"
    )


def _hash(numbers: Iterable[int]) -> str:
    return blake2b(",".join(map(str, numbers)).encode(), digest_size=8).hexdigest()
