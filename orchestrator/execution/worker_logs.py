"""The logs of an attempt: the driver's events and its workers' output, bounded in size and without secrets.

``logs/attempt-0001/driver.log`` holds events; ``MODEL-3.log`` beside it holds the output of worker 3 and its engine.
"""

import asyncio
import logging
import logging.handlers
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from actors.node.process_output import WorkerAddress, last_lines, read_excerpt
from actors.text.printable import printable, strip_colors
from actors.text.redaction import redact_address, redact_addresses, redact_environment
from orchestrator.scheduling.commands import Abandon, Command, Drop, GiveUp, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.storage.safe_write import open_file

FOLDER, DRIVER = "logs", "driver.log"
DRIVER_BYTES = 8 * 2**20
"""Size at which the driver's log is renamed to ``driver.log.1``, which replaces an earlier ``driver.log.1``."""
WORKERS_BYTES = 64 * 2**20
"""Limit on the saved output of one attempt's workers; a warning replaces output that would exceed it."""
REMOTE_LOG_TIMEOUT_S = 60.0
"""Seconds another node may take to send a worker's output."""

log = logging.getLogger(__name__)


class AttemptLog:
    """The folder of an attempt's logs, and how much it may still hold."""

    def __init__(self, folder: Path) -> None:
        """Create a new log folder in the run folder; if it cannot be created, the run goes on without logs."""
        logs = folder / FOLDER
        numbers = [int(path.name[8:]) for path in logs.glob("attempt-*") if path.name[8:].isdigit()]
        self.name = f"{FOLDER}/attempt-{max(numbers, default=0) + 1:04d}"
        self.folder = folder / self.name
        self.bytes_left = WORKERS_BYTES
        with suppress(OSError):  # logs may contain private text, so only the owner can read them
            logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700)

    def worker_path(self, group: str, slot: int) -> str:
        """Return the path of a worker's output, relative to the run folder."""
        return f"{self.name}/{re.sub(r'[^A-Za-z0-9._-]+', '-', group)}-{slot}.log"

    def save(self, group: str, slot: int, output: str, lost: bool) -> None:
        """Write what a worker printed; the last lines of a lost one also go to the driver's log."""
        text = printable(strip_colors(redact_addresses(output)))
        size = len(text.encode("utf-8", "replace"))
        if size <= self.bytes_left:
            self.bytes_left -= size
            with suppress(OSError):
                path = self.folder / Path(self.worker_path(group, slot)).name
                descriptor = open_file(path, os.O_WRONLY | os.O_TRUNC)
                with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
        else:
            log.warning("the output of worker %d of %s is not saved: the logs of this attempt are full", slot, group)
        if lost:
            for line in last_lines(text):
                log.warning("worker %d of %s, last output: %s", slot, group, line)


class WorkerLogCollector:
    """Collects the output of workers as they end: from this node's files at once, from another node when it answers."""

    def __init__(
        self, attempt_log: AttemptLog, here: str, read_on: Callable[[str, Sequence[str]], Awaitable[str]]
    ) -> None:
        """Start without requests; ``here`` is the driver's node, ``read_on`` reads files on another node."""
        self.attempt_log, self.here, self.read_on = attempt_log, here, read_on
        self._requests: set[asyncio.Task[None]] = set()

    def collect(self, group: str, slot: int, address: WorkerAddress | None, lost: bool) -> None:
        """Save the output of a worker that ends; a worker without ``address`` never ran and printed nothing."""
        if address and address.node == self.here:
            self.attempt_log.save(group, slot, read_excerpt(address.streams), lost)
        elif address:
            task = asyncio.create_task(self._read_from_node(group, slot, address, lost))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def wait(self, seconds: float) -> None:
        """Wait at most this long for the output that other nodes still have to send."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=seconds)

    async def _read_from_node(self, group: str, slot: int, address: WorkerAddress, lost: bool) -> None:
        try:
            output = await asyncio.wait_for(self.read_on(address.node, address.streams), REMOTE_LOG_TIMEOUT_S)
        except Exception as problem:  # Ray has many errors for a lost node
            reason = type(problem).__name__
            log.warning("the output of worker %d of %s stays on %s (%s)", slot, group, address.host, reason)
            return
        self.attempt_log.save(group, slot, output, lost)


@contextmanager
def open_attempt_log(folder: Path) -> Iterator[AttemptLog]:
    """Log what the orchestrator does inside the block to a new folder; errors also go to stderr."""
    attempt, logger = AttemptLog(folder), logging.getLogger("orchestrator")
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    handlers[0].setLevel(logging.ERROR)
    handlers[0].setFormatter(_Redacted("%(message)s"))
    with suppress(OSError):
        os.close(open_file(attempt.folder / DRIVER, os.O_WRONLY))
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
        return printable(strip_colors(redact_addresses(redact_environment(super().format(record)))))


def log_command(command: Command, names: Mapping[int, str]) -> None:
    """Log a command of the scheduler before it is carried out; leases are not logged, there are too many.

    ``names``: slot -> group of the running workers.
    """
    match command:
        case Start(slot, name, place):
            nodes = ", ".join(node[:12] for node in place.nodes)
            where = f" on node{'s' if place.stages else ''} {nodes}" if nodes else ""
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
    for line in reported:
        log.info("worker %d of %s: %s", slot, group, line)
    if address.streams:
        log.info("worker %d of %s prints to %s", slot, group, address.streams[0])


def log_nodes(before: Sequence[Node], after: Sequence[Node], draining: Collection[str]) -> None:
    """Log the nodes that have left, joined or are draining, and what other jobs hold if that has changed."""
    old, new = {node.name: node for node in before}, {node.name: node for node in after}
    for name in old.keys() - new.keys():
        log.warning("node %s with %d GPUs is lost", name[:12], old[name].gpus)
    for name in new.keys() - old.keys():
        log.info("node %s with %d GPUs has joined", name[:12], new[name].gpus)
    for name in sorted(draining):
        log.warning("Ray drains node %s: its workers begin no more episodes", name[:12])
    if sum(node.held for node in before) != sum(node.held for node in after):
        log_held(after, always=True)


def log_held(nodes: Sequence[Node], always: bool = False) -> None:
    """Log how many GPUs other jobs of the cluster hold; if they hold none, only with ``always``."""
    held = sum(node.held for node in nodes)
    if held or always:
        log.info("%d of %d GPUs are held by others", held, sum(node.gpus for node in nodes))
