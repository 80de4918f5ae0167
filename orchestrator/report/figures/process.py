"""Draws the figures of a large run in another process, while this one makes the tables and the page.

The figures of a small run are drawn here, because starting a process would take longer. The other process ends with this one.
"""

import os
import pickle
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from actors.node.child_process import end_with_parent, start_module
from envs.errors import RunFolderError
from orchestrator.report.figures.draw import FigureImage, FigureSet, RunFigures, run_figures
from orchestrator.report.figures.numbers import figure_numbers
from orchestrator.report.run_data import RunData

LARGE = 100_000
"""Number of episodes from which another process saves more than its start costs, a second of one processor."""


class FiguresFailed(RuntimeError):
    """Drawing failed in the other process; the message is the traceback."""


class FigureProcess:
    """The figures that another process draws; reading them waits until all are drawn."""

    def __init__(self) -> None:
        """Start the process, which imports matplotlib at once."""
        self._process = start_module(__name__)
        self._answer: tuple[Mapping[str, bytes], Mapping[str, FigureImage]] | None = None

    def draw(self, run_data: RunData, baselines: bool) -> None:
        """Send the numbers to draw."""
        numbers = figure_numbers(run_data)
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pickle.dump((os.getpid(), numbers, baselines), pipe)
        except OSError:
            raise self._ended() from None

    def files(self) -> Mapping[str, bytes]:
        """Return the content of each file, in every width and format."""
        return self._read()[0]

    def images(self) -> Mapping[str, FigureImage]:
        """Return the image of each figure for the page."""
        return self._read()[1]

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> tuple[Mapping[str, bytes], Mapping[str, FigureImage]]:
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
            f"the process that draws the figures ended with code {self._process.wait()}, possibly for lack of memory; see its "
            "message above, if there is one"
        )


@contextmanager
def figure_set(run_data: RunData, baselines: bool = True) -> Iterator[FigureSet]:
    """Yield the figures of a run; those of a large run are drawn in another process, which ends with the block."""
    if run_data.episodes.height < LARGE:
        yield run_figures(run_data, baselines)
        return
    process = FigureProcess()
    try:
        process.draw(run_data, baselines)
        yield process
    finally:
        process.end()


def main() -> None:
    """Draw the numbers from standard input, and answer with files and images, or with a traceback."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text that a library prints must not end up in the answer
    try:
        parent, numbers, baselines = pickle.load(sys.stdin.buffer)
    except EOFError:  # the parent has gone
        return
    end_with_parent(parent)
    answer: object
    try:
        figures = RunFigures(numbers, baselines)
        answer = (figures.files(), figures.images())
    except Exception:  # the parent raises it, whatever it is
        answer = traceback.format_exc()
    with answers:
        pickle.dump(answer, answers)


if __name__ == "__main__":
    main()
