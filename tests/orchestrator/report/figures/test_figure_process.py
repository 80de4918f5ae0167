"""A large run's figures are drawn in a process of their own: the same bytes, errors that travel up, and nothing left behind."""

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
def large(monkeypatch):
    """Every run counts as a large one."""
    monkeypatch.setattr(figure_process, "LARGE", 0)


def children() -> list[str]:
    """Command lines of this process's living children that draw figures."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            if f"PPid:\t{os.getpid()}\n" in text and "State:\tZ" not in text:
                found.append((status.parent / "cmdline").read_text())
        except OSError:  # it ended meanwhile
            continue
    return [line for line in found if "figures.process" in line]


def test_another_process_draws_the_same_bytes(run_data, large):
    with figure_set(run_data) as drawn:
        assert isinstance(drawn, FigureProcess) and len(children()) == 1
        files, pictures = drawn.files(), drawn.images()
    here = RunFigures(figure_process.figure_numbers(run_data))

    assert files == here.files() and len(files) > 20
    assert pictures == here.images()
    assert not children()


def test_a_small_runs_figures_are_drawn_here(run_data):
    with figure_set(run_data) as drawn:
        assert isinstance(drawn, RunFigures) and not children()


def test_what_fails_there_travels_up(run_data, large, monkeypatch):
    numbers = figure_process.figure_numbers(run_data)
    broken = dataclasses.replace(numbers, changes=pl.DataFrame({"model": ["uniform"]}))
    monkeypatch.setattr(figure_process, "figure_numbers", lambda run: broken)

    with pytest.raises(FiguresFailed, match="ColumnNotFoundError"), figure_set(run_data) as drawn:
        drawn.files()
    assert not children()


def test_a_process_that_is_killed_is_one_sentence(run_data, large):
    with pytest.raises(RunFolderError, match="process that draws the figures ended"), figure_set(run_data) as drawn:
        drawn._process.kill()
        drawn.files()
    assert not children()


def test_an_interrupted_report_leaves_no_process(run_data, large):
    with pytest.raises(KeyboardInterrupt), figure_set(run_data):
        assert children()
        raise KeyboardInterrupt
    assert not children()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends a process with its parent")
def test_it_ends_with_a_report_that_is_killed():
    """Whoever starts it and is killed before anything is drawn leaves a process that waits for nothing."""
    code = (
        "import os, signal; from orchestrator.report.figures.process import FigureProcess\n"
        "process = FigureProcess(); print(process._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60)
    status = Path(f"/proc/{int(said.stdout)}/status")
    for _ in range(100):
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.1)
    pytest.fail("it still runs")
