"""The logs of an attempt: what the driver did, and what its workers printed; bounded, and without secrets.

``logs/attempt-0001/driver.log`` holds events, ``MODEL-3.log`` the output of the worker in slot 3, its engine's included.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from actors.printable import printable, without_colours
from actors.process_output import WorkerAddress, excerpt, last_lines
from actors.redaction import redact_address, redact_addresses, redact_environment
from orchestrator.scheduling.commands import Abandon, Command, Drop, GiveUp, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.storage.atomic_write import opened

FOLDER, DRIVER = "logs", "driver.log"
DRIVER_BYTES = 8 * 2**20
"""Size at which the driver's log goes to ``driver.log.1``, which is then lost."""
WORKERS_BYTES = 64 * 2**20
"""Room for the workers' output of one attempt; what comes after is only named."""
REMOTE_LOG_TIMEOUT_S = 60.0
"""Seconds another node may take to hand over a worker's output."""

log = logging.getLogger(__name__)


class AttemptLog:
    """The open folder of an attempt's logs."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the run folder. A disk that takes no log costs the log, never the run."""
        place = folder / FOLDER
        numbers = [int(path.name[8:]) for path in place.glob("attempt-*") if path.name[8:].isdigit()]
        self.name = f"{FOLDER}/attempt-{max(numbers, default=0) + 1:04d}"
        self.folder = folder / self.name
        self.room = WORKERS_BYTES
        with suppress(OSError):  # foreign text may hold what nobody foresaw: for the owner alone
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700)

    def worker(self, group: str, slot: int) -> str:
        """Where a worker's output is kept, from the run folder on."""
        return f"{self.name}/{re.sub(r'[^A-Za-z0-9._-]+', '-', group)}-{slot}.log"

    def keep(self, group: str, slot: int, output: str, lost: bool) -> None:
        """Write what a worker printed; of one that was lost the last lines stand in the driver's log, too."""
        text = printable(without_colours(redact_addresses(output)))
        size = len(text.encode("utf-8", "replace"))
        if size <= self.room:
            self.room -= size
            with suppress(OSError):
                path = self.folder / Path(self.worker(group, slot)).name
                with open(opened(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
        else:
            log.warning("no room is left for the output of worker %d of %s", slot, group)
        if lost:
            for line in last_lines(text):
                log.warning("worker %d of %s, last words: %s", slot, group, line)


class WorkerLogCollector:
    """Collects what workers printed as they end: from this node's files at once, from another node's as soon as it answers."""

    def __init__(
        self, attempt_log: AttemptLog, here: str, read_on: Callable[[str, Sequence[str]], Awaitable[str]]
    ) -> None:
        """``here``: the driver's node; ``read_on`` reads files on another one."""
        self.attempt_log, self.here, self.read_on = attempt_log, here, read_on
        self._requests: set[asyncio.Task[None]] = set()

    def gather(self, group: str, slot: int, place: WorkerAddress | None, lost: bool) -> None:
        """Keep the output of a worker that ends; one that never ran has none."""
        if place is None:
            return
        if place.node == self.here:
            self.attempt_log.keep(group, slot, excerpt(place.streams), lost)
            return
        task = asyncio.create_task(self._from_node(group, slot, place, lost))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def settle(self, seconds: float) -> None:
        """Wait for what other nodes still have to send, at most so long."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=seconds)

    async def _from_node(self, group: str, slot: int, place: WorkerAddress, lost: bool) -> None:
        try:
            output = await asyncio.wait_for(self.read_on(place.node, place.streams), REMOTE_LOG_TIMEOUT_S)
        except Exception as problem:  # its node may be gone in as many ways as there are errors in Ray
            reason = type(problem).__name__
            log.warning("the output of worker %d of %s stays on %s (%s)", slot, group, place.host, reason)
            return
        self.attempt_log.keep(group, slot, output, lost)


@contextmanager
def attempt_log(folder: Path) -> Iterator[AttemptLog]:
    """A new folder of logs that takes everything that the orchestrator logs inside the block; errors go to stderr, too."""
    attempt, logger = AttemptLog(folder), logging.getLogger("orchestrator")
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    handlers[0].setLevel(logging.ERROR)
    handlers[0].setFormatter(_Redacted("%(message)s"))
    with suppress(OSError):
        os.close(opened(attempt.folder / DRIVER, os.O_WRONLY))
        file = logging.handlers.RotatingFileHandler(
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


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(without_colours(redact_addresses(redact_environment(super().format(record)))))


def log_command(command: Command, names: Mapping[int, str]) -> None:
    """Log what the schedule decided, before it is done; ``names``: slot -> group of the workers that run.

    Leases are too many to log.
    """
    match command:
        case Start(slot, name, node, shared):
            where = (f" on node {node[:12]}" if node else "") + (f", shared GPU {shared}" if shared is not None else "")
            log.info("worker %d of %s starts%s", slot, name, where)
        case Stop(slot) if slot in names:
            log.info("worker %d of %s has nothing left to do and stops", slot, names[slot])
        case Drop(slot, reason) if slot in names:
            log.warning("worker %d of %s is let go (%s); its leases are taken back", slot, names[slot], reason)
        case GiveUp(ordinals, reason):
            log.warning("%d episodes are given up as failed: %s", len(ordinals), reason)
        case Abandon(name, reason):
            log.warning("%s cannot be played in this attempt: %s", name, reason)


def log_ready(group: str, slot: int, place: WorkerAddress, reported: Sequence[str]) -> None:
    """Log that a worker plays from now on, where, and what it reported about its devices and the order of loading."""
    devices = f", GPUs {place.devices}" if place.devices else ""
    log.info("worker %d of %s is ready (process %d on %s%s)", slot, group, place.pid, place.host, devices)
    for line in reported:
        log.info("worker %d of %s: %s", slot, group, line)
    if place.streams:
        log.info("worker %d of %s prints to %s", slot, group, place.streams[0])


def log_nodes(before: Sequence[Node], after: Sequence[Node]) -> None:
    """Log which nodes with GPUs came or went."""
    for node in set(before) - set(after):
        log.warning("node %s with %d GPUs is lost", node.name[:12], node.gpus)
    for node in set(after) - set(before):
        log.info("node %s with %d GPUs has joined", node.name[:12], node.gpus)
