"""Draws the figures of a large run in a process of its own, while this one makes the tables and the page.

A small run's are drawn here: starting the process would take longer. It ends with this one, however that ends.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from actors.child_process import end_with, started
from orchestrator.report.figure_numbers import numbers_of
from orchestrator.report.figures import Drawings, DrawnFigures, Picture, drawn_figures
from orchestrator.report.run_data import RunData
from orchestrator.storage.lock import RunFolderError

LARGE = 100_000
"""Episodes from which on a process of its own is worth its start, a second of one processor."""


class FiguresFailed(RuntimeError):
    """Drawing failed there; the message is the traceback."""


class FigureProcess:
    """The figures that another process draws; asking for them waits until all are drawn."""

    def __init__(self) -> None:
        """Start the process, which imports matplotlib at once."""
        self._process = started(__name__)
        self._answer: tuple[Mapping[str, bytes], Mapping[str, Picture]] | None = None

    def draw(self, run_data: RunData, baselines: bool) -> None:
        """Hand over what is to be drawn."""
        numbers = numbers_of(run_data)
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pickle.dump((os.getpid(), numbers, baselines), pipe)
        except OSError:
            raise self._ended() from None

    def files(self) -> Mapping[str, bytes]:
        """File name -> content, of every width and format."""
        return self._drawn()[0]

    def pictures(self) -> Mapping[str, Picture]:
        """Figure -> what the page shows."""
        return self._drawn()[1]

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _drawn(self) -> tuple[Mapping[str, bytes], Mapping[str, Picture]]:
        if self._answer is None:
            assert self._process.stdout is not None
            try:
                answer = pickle.load(self._process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                raise self._ended() from None
            if isinstance(answer, str):
                raise FiguresFailed(answer)
            self._answer = answer
        return self._answer

    def _ended(self) -> RunFolderError:
        self._process.kill()
        return RunFolderError(
            f"the process that draws the figures ended ({self._process.wait()}), for lack of memory perhaps; its message, if any,"
            " stands above"
        )


@contextmanager
def drawing(run_data: RunData, baselines: bool = True) -> Iterator[Drawings]:
    """The figures of a run, those of a large one drawn in another process until the block ends."""
    if run_data.episodes.height < LARGE:
        yield drawn_figures(run_data, baselines)
        return
    process = FigureProcess()
    try:
        process.draw(run_data, baselines)
        yield process
    finally:
        process.end()


def main() -> None:
    """Draw what standard input holds, and answer with files and pictures, or with a traceback."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        parent, numbers, baselines = pickle.load(sys.stdin.buffer)
    except EOFError:  # nobody asks any more
        return
    end_with(parent)
    answer: object
    try:
        drawn = DrawnFigures(numbers, baselines)
        answer = (drawn.files(), drawn.pictures())
    except Exception:  # whatever it is, the other process raises it
        answer = traceback.format_exc()
    with answers:
        pickle.dump(answer, answers)


if __name__ == "__main__":
    main()
