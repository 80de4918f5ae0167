"""Finds the cause of an error in an engine's processes: vLLM's own error only refers to the output above it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from actors.node.process_output import output_files
from actors.text.redaction import redact_environment

REFERS_TO_OUTPUT = "root cause"
"""An error with these words only refers to a cause in the output (vLLM 0.26 to 0.32)."""
LAST_LINE = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): \S.*)$", re.MULTILINE)
"""The last line of a traceback, alone or after a logger's prefix; its other lines are indented."""
TAIL_BYTES = 64 * 1024
"""Maximum bytes that are read of a file's end."""
LONGEST = 400
"""Maximum characters of a cause."""


def root_cause(text: str) -> str:
    """Return the last error in an output that is a cause itself; empty if there is none."""
    errors = [line.strip() for line in LAST_LINE.findall(text) if REFERS_TO_OUTPUT not in line]
    return errors[-1][:LONGEST] if errors else ""


@contextmanager
def name_root_cause() -> Iterator[None]:
    """Replace an error whose cause is in this process's output by a RuntimeError with that cause."""
    sizes_before = {path: Path(path).stat().st_size for path in output_files()}
    try:
        yield
    except RuntimeError as problem:
        cause = root_cause(_written_since(sizes_before)) if REFERS_TO_OUTPUT in str(problem) else ""
        if not cause:
            raise
        raise RuntimeError(cause) from problem


def _written_since(sizes_before: Mapping[str, int]) -> str:
    """Return the end of what was written to each file beyond its earlier size, with secrets redacted."""
    parts = []
    for name, size in sizes_before.items():
        with Path(name).open("rb") as file:
            file.seek(max(size, Path(name).stat().st_size - TAIL_BYTES))
            parts.append(file.read(TAIL_BYTES).decode("utf-8", "replace"))
    return redact_environment("\n".join(parts))
