"""Ctrl-C, SIGTERM and SIGHUP while an attempt runs: the first stops it in good order, the third leaves at once.

What was stored stays stored however the process ends; a signal only decides how much more is stored first.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 3
"""The signal at which nothing more is waited for."""
WAIT = b"storing what has come back; once more leaves at once, and what is not stored yet is played again\n"


class StopSignals:
    """Holds the process's handlers of these signals until the block ends; outside the main thread it holds none.

    What plays may run in another thread of the process (a notebook's cell): a signal stops it all the same.
    """

    def __init__(self) -> None:
        self.count = 0
        self._stop: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if _in_main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self._install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop_with(self, stop: Callable[[], object]) -> None:
        """From now on the first signal calls ``stop`` in the running loop; Ray has put handlers of its own in the meantime."""
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if self.count:  # heard by the main thread while this one was getting ready
            self._stop()
        if _in_main_thread():
            self._install()

    def _install(self) -> None:
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt where nothing plays yet, and at the third signal."""
        self.count += 1
        if number == signal.SIGHUP:
            _leave_terminal()
        if self._stop is None or self.count >= PATIENCE:
            raise KeyboardInterrupt
        if self.count > 1:
            with suppress(OSError):
                os.write(2, WAIT)
        with suppress(RuntimeError):  # the loop has ended, and its results are being stored
            self._stop()


def _in_main_thread() -> bool:
    """Python lets no other thread set a handler."""
    return threading.current_thread() is threading.main_thread()


def _leave_terminal() -> None:
    """The terminal is gone: what is printed from now on goes nowhere, instead of failing."""
    with open(os.devnull, "wb") as nowhere:
        for stream in (1, 2):
            if _terminal(stream):
                os.dup2(nowhere.fileno(), stream)


def _terminal(stream: int) -> bool:
    """Whether it is a terminal, or was one until it was closed."""
    try:
        termios.tcgetattr(stream)
    except termios.error as problem:
        return bool(problem.args[0] == errno.EIO)
    return True
