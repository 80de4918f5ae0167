"""Figures of a large run are drawn in another process: same bytes, errors are raised here, and no process is left."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.report.figures import process as figure_process
from orchestrator.report.figures.draw import RunFigures
from orchestrator.report.figures.process import FigureProcess, FiguresFailed, figure_set


@pytest.fixture
def large_run(monkeypatch):
    """Treat every run as a large one."""
    monkeypatch.setattr(figure_process, "LARGE", 0)


def children() -> list[str]:
    """Return the command lines of this process's living children that draw figures."""
    lines = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            if f"PPid:\t{os.getpid()}\n" in text and "State:\tZ" not in text:
                lines.append((status.parent / "cmdline").read_text())
        except OSError:  # the process has ended
            continue
    return [line for line in lines if "figures.process" in line]


@pytest.mark.slow
@pytest.mark.long
def test_another_process_draws_the_same_bytes(run_data, large_run):
    with figure_set(run_data) as figures:
        assert isinstance(figures, FigureProcess) and len(children()) == 1
        files, pictures = figures.files(), figures.images()
    here = RunFigures(figure_process.figure_numbers(run_data))

    assert files == here.files() and len(files) > 20
    assert pictures == here.images()
    assert not children()


def test_small_runs_are_drawn_in_this_process(run_data):
    with figure_set(run_data) as figures:
        assert isinstance(figures, RunFigures) and not children()


def test_drawing_errors_are_raised(run_data, large_run, monkeypatch):
    numbers = figure_process.figure_numbers(run_data)
    broken = dataclasses.replace(numbers, changes=pl.DataFrame({"model": ["uniform"]}))
    monkeypatch.setattr(figure_process, "figure_numbers", lambda run: broken)

    with pytest.raises(FiguresFailed, match="ColumnNotFoundError"), figure_set(run_data) as figures:
        figures.files()
    assert not children()


def test_killed_process_is_reported(run_data, large_run):
    with pytest.raises(RunFolderError, match="process that draws the figures ended"), figure_set(run_data) as figures:
        figures._process.kill()
        figures.files()
    assert not children()


def test_an_interrupted_report_leaves_no_process(run_data, large_run):
    with pytest.raises(KeyboardInterrupt), figure_set(run_data):
        assert children()
        raise KeyboardInterrupt
    assert not children()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends a process with its parent")
def test_process_ends_with_killed_report():
    """If the report is killed before anything is drawn, the drawing process ends too."""
    code = (
        "import os, signal; from orchestrator.report.figures.process import FigureProcess\n"
        "process = FigureProcess(); print(process._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60)
    status = Path(f"/proc/{int(done.stdout)}/status")
    for _ in range(600):
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    pytest.fail("it still runs")


def answer_to(request, monkeypatch):
    """Return what the process answers to the bytes of a request, and which streams it moved."""
    answers, moved = io.BytesIO(), []
    answers.close = lambda: None
    streams = SimpleNamespace(
        dup=lambda number: number + 10, dup2=lambda *pair: moved.append(pair),
        fdopen=lambda number, mode: moved.append((number, mode)) or answers,
    )  # fmt: skip
    monkeypatch.setattr(figure_process, "os", streams)
    monkeypatch.setattr(figure_process, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=io.BytesIO(request))))
    monkeypatch.setattr(figure_process, "end_with_parent", lambda parent: moved.append(parent))
    figure_process.main()
    return answers.getvalue(), moved


def test_the_process_answers_with_files_and_images_or_a_traceback(monkeypatch):
    class Drawn:
        def __init__(self, numbers, baselines):
            self.both = numbers, baselines

        def files(self):
            return {"a.svg": self.both}

        def images(self):
            if self.both[0] == "broken":
                raise ValueError("no such column")
            return {"a": "image"}

    monkeypatch.setattr(figure_process, "RunFigures", Drawn)
    answer, moved = answer_to(pickle.dumps((77, "numbers", False)), monkeypatch)
    assert pickle.loads(answer) == ({"a.svg": ("numbers", False)}, {"a": "image"})
    assert moved == [(11, "wb"), (2, 1), 77], "what a library prints goes to the errors"
    answer, _ = answer_to(pickle.dumps((77, "broken", True)), monkeypatch)
    assert pickle.loads(answer).endswith("ValueError: no such column\n")
    assert answer_to(b"", monkeypatch)[0] == b"", "the parent has gone"
