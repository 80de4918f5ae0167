"""An engine's failure is reported with the cause from its own process; nothing else changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from actors.node.root_cause import LONGEST, name_root_cause, root_cause

ABOVE = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
CHILD = """
(Engine pid=7) ERROR 01-01 00:00:00 [core.py:1] Traceback (most recent call last):
(Engine pid=7) ERROR 01-01 00:00:00 [core.py:1]     raise ValueError(
(Engine pid=7) ERROR 01-01 00:00:00 [core.py:1] ValueError: it needs 9 GiB of memory, and 3 are free
(Engine pid=7) ERROR 01-01 00:00:00 [core.py:2] Exception: a worker failed. See stack trace for root cause.
"""
PARENT = """
import subprocess, sys
from actors.node.root_cause import name_root_cause
print("ValueError: of an earlier engine", flush=True)
with name_root_cause():
    subprocess.run([sys.executable, "-c", "print(" + repr({child!r}) + ")"])
    raise {kind}({said!r})
"""


def last_line(tmp_path, message: str, kind: str = "RuntimeError", child: str = CHILD) -> str:
    """The last line of a process whose child prints what an engine does before it raises."""
    code = PARENT.format(said=message, kind=kind, child=child)
    with (tmp_path / "out").open("w+") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=out, check=False)
        out.seek(0)
        return out.read().strip().splitlines()[-1]


def test_cause_replaces_pointer_to_it(tmp_path):
    assert last_line(tmp_path, ABOVE) == "RuntimeError: ValueError: it needs 9 GiB of memory, and 3 are free"


@pytest.mark.parametrize(
    ("message", "kind", "child"),
    [("no such layer", "RuntimeError", CHILD), (ABOVE, "OSError", CHILD), (ABOVE, "RuntimeError", "all is well")],
)
def test_other_errors_stay_unchanged(tmp_path, message, kind, child):
    assert last_line(tmp_path, message, kind, child) == f"{kind}: {message}"


def test_the_last_error_counts_and_is_bounded():
    chained = "ValueError: first\n\nDuring handling of it:\ntorch.OutOfMemoryError: CUDA out of memory. " + "x" * 999

    assert root_cause(chained).startswith("torch.OutOfMemoryError: CUDA") and len(root_cause(chained)) == LONGEST
    assert root_cause("    raise ValueError(\n  in ValueError: indented") == ""


def test_output_without_file_loses_nothing():
    with pytest.raises(RuntimeError, match="See root cause"), name_root_cause():
        raise RuntimeError(ABOVE)


def test_an_error_that_names_its_own_cause_stays_as_it_is():
    with pytest.raises(RuntimeError, match=r"^no such layer$"), name_root_cause():
        raise RuntimeError("no such layer")
    assert root_cause("a\n] KeyError: 'x'\n] Exception: see root cause above") == "KeyError: 'x'"
