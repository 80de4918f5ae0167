"""Ctrl-C, SIGTERM and SIGHUP while an attempt runs: the first stops it and stores its results, the third exits at once.

SIGSTOP cannot be handled; the attempt's clock leaves out the time for which it was stopped.
"""

import asyncio
import logging
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 3
"""The third signal exits without waiting."""
WAIT = b"storing finished episodes; press again to exit at once (unstored episodes are then played again)\n"
STANDSTILL_S = 5.0
"""The driver reads the clock twice a second; a gap of more seconds means that the driver itself was stopped (SIGSTOP)."""

log = logging.getLogger(__name__)


class StopSignals:
    """Handles ``SIGNALS`` until the block ends, if it is entered in the main thread.

    The attempt that is stopped may run in another thread of the process (a notebook's cell).
    """

    def __init__(self) -> None:
        self.count = 0
        self._stop: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self._install()
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop_with(self, stop: Callable[[], object]) -> None:
        """Call ``stop`` in the running loop at the first signal; install the handlers again, for Ray has replaced them."""
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if self.count:  # a signal came in the main thread while this thread was preparing
            self._stop()
        if threading.current_thread() is threading.main_thread():  # the only one in which Python sets handlers
            self._install()

    def _install(self) -> None:
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Stop the attempt; raises KeyboardInterrupt if nothing plays yet, and at the third signal."""
        self.count += 1
        if number == signal.SIGHUP:
            _leave_terminal()
        if self._stop is None or self.count >= PATIENCE:
            raise KeyboardInterrupt
        if self.count > 1:
            with suppress(OSError):
                os.write(2, WAIT)
        with suppress(RuntimeError):  # the loop has ended and its results are being stored
            self._stop()


def _leave_terminal() -> None:
    """Send further output to /dev/null, because writing to a closed terminal fails."""
    with open(os.devnull, "wb") as null:
        for stream in (1, 2):
            if stat.S_ISCHR(os.fstat(stream).st_mode):  # a terminal, also one that was closed
                os.dup2(null.fileno(), stream)


class AttemptClock:
    """The seconds since its creation, without the time for which this process was stopped."""

    def __init__(self) -> None:
        self._began = self._read_at = time.monotonic()

    def now(self) -> float:
        reading = time.monotonic()
        if (stopped_for := reading - self._read_at) > STANDSTILL_S:
            log.warning("the driver was stopped for %.0f s, which do not count as silence of workers", stopped_for)
            self._began += stopped_for
        self._read_at = reading
        return reading - self._began
