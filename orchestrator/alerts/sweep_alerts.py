"""The events of a sweep that a person may have to act on, sent to a webhook.

The address comes from the environment variable ``PROACTIVE_SWEEP_ALERTS`` and never from a file: with most services it is a
secret, and a run folder received from someone else must not name a host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envs.errors import UserError

if TYPE_CHECKING:
    from orchestrator.alerts.webhook import Webhook

VARIABLE = "PROACTIVE_SWEEP_ALERTS"
BUDGET_SHARE = 0.8
"""Share of a cost limit at which an alert is sent."""


class SweepAlerts:
    """The alerts of one attempt at a run folder; each event is sent once. Without a webhook nothing is sent."""

    def __init__(self, sweep: str, folder: Path, webhook: Webhook | None) -> None:
        self.sweep, self.folder, self.webhook = sweep, folder, webhook
        self.ended = False
        self._sent = set[tuple[str, str]]()

    def report_stops(self, reasons: Mapping[str, str]) -> None:
        """Send an alert for each group of workers or requests that has stopped; ``reasons``: name of the group -> why."""
        for name, reason in reasons.items():
            self._send("stopped", f"{name} has stopped: {reason}", subject=name, reason=reason)

    def report_spending(self, spending: Mapping[str, tuple[float, float]]) -> None:
        """Send an alert for each cost limit that is spent to ``BUDGET_SHARE``; ``spending``: its name -> (spent, limit)."""
        for name, (spent, limit) in spending.items():
            if spent >= BUDGET_SHARE * limit:
                text = f"{name}: {spent:.2f} of the limit of {limit:.2f} is spent"
                self._send("budget", text, subject=name, spent=spent, limit=limit)

    def report_end(self, complete: bool, interrupted: bool, finished: int, planned: int) -> None:
        """Send the alert that the attempt has ended."""
        self.ended = True
        event = "complete" if complete else "interrupted" if interrupted else "incomplete"
        text = f"the sweep is {event}: {finished:,} of {planned:,} episodes are stored"
        self._send(event, text, finished=finished, planned=planned)

    def report_failure(self, error: BaseException) -> None:
        """Send the alert that an exception has ended the attempt."""
        reason = str(error).partition("\n")[0] or type(error).__name__
        self._send("failed", f"the sweep has failed: {reason}", reason=reason)

    def _send(self, event: str, text: str, subject: str = "", **details: Any) -> None:
        if self.webhook is None or (event, subject) in self._sent:
            return
        self._sent.add((event, subject))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        fields = {"event": event, "sweep": self.sweep, "folder": self.folder.name, "at": at}
        subject_field = {"subject": subject} if subject else {}
        self.webhook.send({"text": f"{self.sweep}: {text}", **fields, **subject_field, **details})


@contextmanager
def open_alerts(sweep: str, folder: Path) -> Iterator[SweepAlerts]:
    """Yield the alerts of an attempt, and wait for their delivery at its end; raises UserError if the address is invalid."""
    address = os.environ.get(VARIABLE, "")
    if not address:
        yield SweepAlerts(sweep, folder, None)
        return
    if not is_web_address(address):
        raise UserError(
            f"the environment variable {VARIABLE} is not a web address; set it to https://HOST/PATH, or unset it"
        )
    from orchestrator.alerts.webhook import Webhook  # aiohttp takes a quarter of a second to import

    alerts = SweepAlerts(sweep, folder, Webhook(address))
    try:
        yield alerts
    except BaseException as error:
        if not alerts.ended:
            alerts.report_failure(error)
        raise
    finally:
        assert alerts.webhook is not None
        alerts.webhook.close()


def is_web_address(text: str) -> bool:
    """Return True if a request can be sent to the text as an http or https address."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:
        return False
