"""An engine's failure names what its own process said, and nothing else is changed."""

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


def printed(tmp_path, said: str, kind: str = "RuntimeError", child: str = CHILD) -> str:
    """The last line of a process whose child prints what an engine does before it raises."""
    code = PARENT.format(said=said, kind=kind, child=child)
    with (tmp_path / "out").open("w+") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=out, check=False)
        out.seek(0)
        return out.read().strip().splitlines()[-1]


def test_the_cause_takes_the_place_of_the_words_that_point_to_it(tmp_path):
    assert printed(tmp_path, ABOVE) == "RuntimeError: ValueError: it needs 9 GiB of memory, and 3 are free"


@pytest.mark.parametrize(
    ("said", "kind", "child"),
    [("no such layer", "RuntimeError", CHILD), (ABOVE, "OSError", CHILD), (ABOVE, "RuntimeError", "all is well")],
)
def test_other_errors_and_outputs_without_a_cause_stay_as_they_are(tmp_path, said, kind, child):
    assert printed(tmp_path, said, kind, child) == f"{kind}: {said}"


def test_the_last_error_counts_and_is_bounded():
    chained = "ValueError: first\n\nDuring handling of it:\ntorch.OutOfMemoryError: CUDA out of memory. " + "x" * 999

    assert root_cause(chained).startswith("torch.OutOfMemoryError: CUDA") and len(root_cause(chained)) == LONGEST
    assert root_cause("    raise ValueError(\n  in ValueError: indented") == ""


def test_where_output_is_no_file_nothing_is_lost():
    with pytest.raises(RuntimeError, match="See root cause"), name_root_cause():
        raise RuntimeError(ABOVE)
