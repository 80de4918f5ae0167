"""The log of an attempt, ``logs/attempt-0001/driver.log``: the driver's events, bounded in size and without secrets.

What workers print is in Ray's own logs on their nodes; this log names those files.
"""

import logging
import logging.handlers
import os
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from actors.node.process_output import WorkerAddress
from actors.text.printable import printable, strip_colors
from actors.text.redaction import redact_address, redact_addresses, redact_environment
from orchestrator.scheduling.nodes import Node
from orchestrator.storage.safe_write import open_file

FOLDER, DRIVER = "logs", "driver.log"
DRIVER_BYTES = 8 * 2**20
"""Size at which the driver's log is renamed to ``driver.log.1``, which replaces an earlier ``driver.log.1``."""

log = logging.getLogger(__name__)


@contextmanager
def open_attempt_log(folder: Path) -> Iterator[Path]:
    """Log what the orchestrator does inside the block to a new folder; errors also go to stderr.

    Yield the new folder, which does not exist if it cannot be created; the run then goes on without a log.
    """
    logs, logger = folder / FOLDER, logging.getLogger("orchestrator")
    names = (path.name.removeprefix("attempt-") for path in logs.glob("attempt-*"))
    numbers = map(int, filter(str.isdecimal, names))
    attempt = logs / f"attempt-{max(numbers, default=0) + 1:04d}"
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    handlers[0].setLevel(logging.ERROR)
    handlers[0].setFormatter(_Redacted("%(message)s"))
    with suppress(OSError):  # logs may contain private text, so only the owner can read them
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        attempt.mkdir(mode=0o700)
        os.close(open_file(attempt / DRIVER, os.O_WRONLY))
        file = _LogFile(attempt / DRIVER, maxBytes=DRIVER_BYTES, backupCount=1, encoding="utf-8", errors="replace")
        file.setFormatter(_Redacted("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(file)
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    log.info("process %d on %s: %s", os.getpid(), socket.gethostname(), " ".join(map(redact_address, sys.argv)))
    try:
        yield attempt
    finally:
        log.info("the attempt has ended")
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


class _LogFile(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the line if the disk cannot take it; the store reports a full disk once."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(strip_colors(redact_addresses(redact_environment(super().format(record)))))


def log_ready(group: str, slot: int, address: WorkerAddress, reported: Sequence[str]) -> None:
    """Log where a worker runs and what it reported about its devices and the order of loading."""
    devices = f", GPUs {address.devices}" if address.devices else ""
    log.info("worker %d of %s is ready (process %d on %s%s)", slot, group, address.pid, address.host, devices)
    for line in (*reported, *(f"prints to {path}" for path in address.streams[:1])):
        log.info("worker %d of %s: %s", slot, group, line)


def log_nodes(before: Collection[Node], after: Collection[Node], draining: Collection[str] = ()) -> None:
    """Log the nodes that have left, joined, changed or are draining."""
    for what, nodes in (("lost or changed", set(before) - set(after)), ("joined or changed", set(after) - set(before))):
        for node in nodes:
            log.info("%s: node %s with %d GPUs, %d of them held by others", what, node.name[:12], node.gpus, node.held)
    for name in draining:
        log.warning("Ray drains node %s: its workers begin no more episodes", name[:12])
