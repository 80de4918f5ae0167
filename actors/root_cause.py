"""What went wrong in an engine's own processes: vLLM's error says only that the cause was printed above it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from actors.process_output import TAIL_BYTES, streams
from actors.redaction import redact_environment

ELSEWHERE = "root cause"
"""Words of an error whose cause is in the output (vLLM 0.26 to 0.32)."""
LAST_LINE = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): \S.*)$", re.MULTILINE)
"""The last line of a traceback, alone or behind the mark of a logger; its other lines are indented."""
LONGEST = 400
"""Characters of a cause."""


def root_cause(text: str) -> str:
    """The last error in an output that says what went wrong; empty where there is none."""
    found = [line.strip() for line in LAST_LINE.findall(text) if ELSEWHERE not in line]
    return found[-1][:LONGEST] if found else ""


@contextmanager
def root_cause_named() -> Iterator[None]:
    """Meanwhile an error whose cause lies in this process's output names that cause first. Raises RuntimeError for it."""
    before = {path: Path(path).stat().st_size for path in streams()}
    try:
        yield
    except RuntimeError as problem:
        cause = root_cause(_since(before)) if ELSEWHERE in str(problem) else ""
        if not cause:
            raise
        raise RuntimeError(cause) from problem


def _since(before: Mapping[str, int]) -> str:
    """What was printed since, its last part, secrets hidden."""
    parts = []
    for name, size in before.items():
        with Path(name).open("rb") as file:
            file.seek(max(size, Path(name).stat().st_size - TAIL_BYTES))
            parts.append(file.read(TAIL_BYTES).decode("utf-8", "replace"))
    return redact_environment("\n".join(parts))
