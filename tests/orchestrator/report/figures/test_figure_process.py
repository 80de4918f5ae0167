"""Figures of a large run are drawn in another process: same bytes, errors are raised here, and no process is left."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from orchestrator.report.figures import process as figure_process
from orchestrator.report.figures.draw import RunFigures
from orchestrator.report.figures.process import FigureProcess, FiguresFailed, figure_set
from orchestrator.storage.lock import RunFolderError


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
    for _ in range(100):
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    pytest.fail("it still runs")
