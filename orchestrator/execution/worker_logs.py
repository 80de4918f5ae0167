"""The log of an attempt, ``logs/attempt-0001/driver.log``: the driver's events, bounded in size and without secrets.

What workers print is in Ray's own logs on their nodes; it names the files.
"""

import logging
import logging.handlers
import os
import socket
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from actors.node.process_output import WorkerAddress
from actors.text.printable import printable, strip_colors
from actors.text.redaction import redact_address, redact_addresses, redact_environment
from orchestrator.scheduling.commands import Abandon, Command, Drop, GiveUp, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.storage.safe_write import open_file

FOLDER, DRIVER = "logs", "driver.log"
DRIVER_BYTES = 8 * 2**20
"""Size at which the driver's log is renamed to ``driver.log.1``, which replaces an earlier ``driver.log.1``."""

log = logging.getLogger(__name__)


class AttemptLog:
    """The folder of an attempt's log."""

    def __init__(self, folder: Path) -> None:
        """Create a new log folder in the run folder; if it cannot be created, the run goes on without logs."""
        logs = folder / FOLDER
        numbers = [int(path.name[8:]) for path in logs.glob("attempt-*") if path.name[8:].isdigit()]
        self.name = f"{FOLDER}/attempt-{max(numbers, default=0) + 1:04d}"
        self.folder = folder / self.name
        with suppress(OSError):  # logs may contain private text, so only the owner can read them
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700)


@contextmanager
def open_attempt_log(folder: Path) -> Iterator[AttemptLog]:
    """Log what the orchestrator does inside the block to a new folder; errors also go to stderr."""
    attempt, logger = AttemptLog(folder), logging.getLogger("orchestrator")
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    handlers[0].setLevel(logging.ERROR)
    handlers[0].setFormatter(_Redacted("%(message)s"))
    with suppress(OSError):
        os.close(open_file(attempt.folder / DRIVER, os.O_WRONLY))
        file = _LogFile(
            attempt.folder / DRIVER, maxBytes=DRIVER_BYTES, backupCount=1, encoding="utf-8", errors="replace"
        )
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
        """Go on without the line on a disk that takes no more; the store says so, and once."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(strip_colors(redact_addresses(redact_environment(super().format(record)))))


def log_command(command: Command, names: Mapping[int, str]) -> None:
    """Log a command of the scheduler before it is carried out; leases are not logged, there are too many.

    ``names``: slot -> group of the running workers.
    """
    match command:
        case Start(slot, name, place):
            where = f" on node {place.node[:12]}" if place.node else ""
            where += f", shared GPU {place.shared}" if place.shared is not None else ""
            log.info("worker %d of %s starts%s", slot, name, where)
        case Stop(slot) if slot in names:
            log.info("worker %d of %s has nothing left to play and stops", slot, names[slot])
        case Drop(slot, reason) if slot in names:
            log.warning("worker %d of %s is dropped (%s); its leases are played again", slot, names[slot], reason)
        case GiveUp(ordinals, reason):
            log.warning("%d episodes are given up as failed: %s", len(ordinals), reason)
        case Abandon(name, reason):
            log.warning("%s cannot be played in this attempt: %s", name, reason)


def log_ready(group: str, slot: int, address: WorkerAddress, reported: Sequence[str]) -> None:
    """Log where a worker runs and what it reported about its devices and the order of loading."""
    devices = f", GPUs {address.devices}" if address.devices else ""
    log.info("worker %d of %s is ready (process %d on %s%s)", slot, group, address.pid, address.host, devices)
    for line in (*reported, *(f"prints to {path}" for path in address.streams[:1])):
        log.info("worker %d of %s: %s", slot, group, line)


def log_nodes(before: Sequence[Node], after: Sequence[Node], draining: Collection[str] = ()) -> None:
    """Log the nodes that have left, joined or are draining, and what other jobs hold if that has changed."""
    old, new = {node.name: node for node in before}, {node.name: node for node in after}
    for name in old.keys() - new.keys():
        log.warning("node %s with %d GPUs is lost", name[:12], old[name].gpus)
    for name in new.keys() - old.keys() if before else ():
        log.info("node %s with %d GPUs has joined", name[:12], new[name].gpus)
    for name in sorted(draining):
        log.warning("Ray drains node %s: its workers begin no more episodes", name[:12])
    held = sum(node.held for node in after)
    if held != sum(node.held for node in before):
        log.info("%d of %d GPUs are held by others", held, sum(node.gpus for node in after))
