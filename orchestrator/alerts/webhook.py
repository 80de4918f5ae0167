"""Send alerts as JSON to one address, in order, without slowing or stopping the sweep."""

import asyncio
import json
import logging
import queue
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt, wait_exponential

from actors.text.redaction import redact_addresses, redact_environment

ATTEMPTS, TRY_TIMEOUT_S = 4, 10.0
WAIT_S, MAX_WAIT_S = 1.0, 8.0
"""Seconds before the second try; each further wait is twice as long, up to the maximum."""
CLOSE_TIMEOUT_S = 20.0

log = logging.getLogger(__name__)


class TemporaryError(Exception):
    """The receiver is busy or broken and may take the same alert later."""


class PermanentError(Exception):
    """The receiver will not take this alert."""


class Webhook:
    """Posts alerts from a thread of its own."""

    def __init__(self, address: str, wait_s: float = WAIT_S) -> None:
        """``address`` is secret with most services: no message or log shows more of it than its host."""
        self.address, self.wait_s = address, wait_s
        self.host = urlsplit(address).hostname
        self._alerts = queue.SimpleQueue[Mapping[str, Any] | None]()
        self._thread = threading.Thread(target=self._send_all, name="alerts", daemon=True)
        self._thread.start()

    def send(self, alert: Mapping[str, Any]) -> None:
        """Queue an alert and return at once."""
        self._alerts.put(alert)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Wait until all alerts are delivered or given up, at most ``timeout`` seconds."""
        self._alerts.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.warning("%s did not take all alerts within %.0f s", self.host, timeout)

    def _send_all(self) -> None:
        while (alert := self._alerts.get()) is not None:
            body = redact_environment(redact_addresses(json.dumps(alert))).encode()
            try:
                asyncio.run(self._post(body))
            except (TemporaryError, PermanentError, RetryError) as problem:
                reason = problem.last_attempt.exception() if isinstance(problem, RetryError) else problem
                log.warning("%s did not take the alert %s: %s", self.host, alert["event"], reason)

    async def _post(self, body: bytes) -> None:
        tries = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(self.wait_s, MAX_WAIT_S),
            retry=retry_if_exception_type(TemporaryError),
        )
        async for attempt in tries:
            with attempt:
                await self._post_once(body)

    async def _post_once(self, body: bytes) -> None:
        """Post a body; redirects are not followed, because their target is an address that the user has not named."""
        limit, headers = aiohttp.ClientTimeout(total=TRY_TIMEOUT_S), {"Content-Type": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.post(self.address, data=body, headers=headers, allow_redirects=False) as response,
            ):
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise TemporaryError(type(problem).__name__) from None  # its text may contain the address
        if status == 429 or status >= 500:
            raise TemporaryError(f"HTTP {status}")
        if status >= 300:
            raise PermanentError(f"HTTP {status}")
