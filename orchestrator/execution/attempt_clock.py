"""The time of an attempt."""

import logging
import time

STANDSTILL_S = 5.0
"""The driver reads the clock twice a second; a gap of more seconds means that the driver itself was stopped (SIGSTOP)."""

log = logging.getLogger(__name__)


class AttemptClock:
    """The seconds since its creation, without the time for which this process was stopped."""

    def __init__(self) -> None:
        self._began = self._read_at = time.monotonic()

    def now(self) -> float:
        """Return the seconds so far."""
        reading = time.monotonic()
        if (stopped_for := reading - self._read_at) > STANDSTILL_S:
            log.warning("the driver was stopped for %.0f s, which do not count as silence of workers", stopped_for)
            self._began += stopped_for
        self._read_at = reading
        return reading - self._began
