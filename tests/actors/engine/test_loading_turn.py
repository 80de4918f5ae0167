"""Engines load together, except one that must load alone; a dead loader delays nobody. Real processes."""

import subprocess
import sys
import tempfile
import threading

import pytest

from actors.engine.registry import loading_turn

HOLD = """
import sys
from actors.engine.registry import loading_turn
with loading_turn("first", print, alone=sys.argv[1] == "alone"):
    print("loading", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def hold(kind):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "loading\n"
    return process


@pytest.mark.parametrize(
    ("first_kind", "alone", "waits"), [("alone", False, True), ("shared", True, True), ("shared", False, False)]
)
def test_an_engine_that_loads_alone_waits_for_others_even_if_they_are_killed(first_kind, alone, waits):
    first, lines, entered = hold(first_kind), [], threading.Event()

    def load():
        with loading_turn("second", lines.append, alone):
            entered.set()

    thread = threading.Thread(target=load)
    thread.start()
    assert entered.wait(0.3) is not waits and lines == ["second waits for its turn to load"] * waits
    first.kill()
    first.wait()
    assert entered.wait(5)
    thread.join()
