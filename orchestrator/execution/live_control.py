"""Carries out the commands of ``proactive-sweep ctl`` in a running sweep, one by one, and logs their effect.

A command changes which worker plays what and when, never a stored row or its key.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.plural import pluralize
from orchestrator.planning.plan import CellOrdinals, Plan, worker_group
from orchestrator.storage import control_log
from orchestrator.storage.control_log import DRAINS, JUDGE, Command, LogEntry
from orchestrator.storage.control_state import ControlState, matches

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver

HOLDS = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "restore": "restored"}
"""Verb -> what its cells are afterwards, as a word of the reply."""

log = logging.getLogger(__name__)


class CommandRefused(Exception):
    """A command cannot be carried out; the text of the exception is the whole reply."""


class LiveControl:
    """The commands to one run folder, carried out by its driver."""

    def __init__(self, driver: Driver, plan: Plan, folder: Path, standing: ControlState) -> None:
        """Apply the commands that are in force (``standing``), so that a new driver continues where the last one ended."""
        self.driver, self.plan, self.folder, self.standing = driver, plan, folder, standing
        self.cell_indexes = {cell.key: index for index, cell in enumerate(self.plan.cells)}
        if standing.entries:
            self._hold_groups(driver.schedule.groups)
        if standing.drained:
            self._drain_nodes()

    def poll(self) -> None:
        """Carry out the commands that wait in ``control/``; raises OSError if the folder or its command log is unusable."""
        self.folder.stat()  # raises if the folder was moved; a paused run writes nothing that would fail, and gets no command
        for entry in control_log.take_commands(self.folder, self._act):
            (log.warning if entry.refused else log.info)("ctl: %s", entry.sentence)

    def _act(self, command: Command) -> tuple[str, bool]:
        """Return the effect of a command, and True if it was refused; a refused one changes nothing."""
        try:
            check_command(self.plan, command)
            if command.verb in DRAINS:
                self._find_nodes(command.target)
        except CommandRefused as problem:
            return str(problem), True
        self.standing.add(LogEntry(name="", command=command, taken="", effect=""))
        return self._drain(command) if command.verb in DRAINS else self._hold(command), False

    def _hold(self, command: Command) -> str:
        """Pause, resume, cancel or restore cells."""
        cells = find_cells(self.plan, command)
        names = {worker_group(self.plan.cells[self.cell_indexes[cell]].model) for cell in cells}
        if self.driver.judge_queue is not None and matches(command.target, JUDGE):
            names.add(self.driver.judge_queue.group)
        self._hold_groups(names)
        return describe_hold(command, cells)

    def _hold_groups(self, names: Collection[str]) -> None:
        """Hold the paused episodes of groups and withdraw the cancelled ones; the judge still reads cancelled cells' answers."""
        driver, standing, offsets = self.driver, self.standing, self.plan.offsets
        paused = {index for cell, index in self.cell_indexes.items() if standing.pausing_command(cell)}
        cancelled = {index for cell, index in self.cell_indexes.items() if standing.canceling_command(cell)}
        for name in sorted(names):
            held: Container[int] = CellOrdinals(offsets, paused)
            withdrawn: Container[int] = CellOrdinals(offsets, cancelled)
            if driver.judge_queue is not None and name == driver.judge_queue.group:
                held, withdrawn = range(self.plan.total) if standing.pausing_command(JUDGE) else (), ()
            driver.act(driver.schedule.hold(name, held, withdrawn, driver.now()))

    def _drain(self, command: Command) -> str:
        self._drain_nodes()
        if command.verb == "undrain":
            return f"{command.target} gets workers again"
        return f"{command.target} gets no more workers; episodes in play there end and are stored"

    def _drain_nodes(self) -> None:
        """Tell the driver all drained nodes; skip those that have left the cluster."""
        names = set[str]()
        for target in self.standing.drained:
            try:
                names |= self._find_nodes(target)
            except CommandRefused:
                log.warning("the drained node %s is not in the cluster", target)
        self.driver.drain(names)

    def _find_nodes(self, target: str) -> set[str]:
        """Return Ray's names of the GPU nodes on a host, or of the node whose name begins so; raises CommandRefused.

        Several nodes may run on one host; a beginning that several names share is refused.
        """
        hosts = self.driver.hosts()
        names = [node.name for node in self.driver.nodes]
        nodes = {name for name in names if hosts.get(name) == target or name.startswith(target)}
        if not nodes or (len(nodes) > 1 and target not in hosts.values()):
            choices = ", ".join(f"{hosts.get(name, '?')} ({name[:12]})" for name in names[:8]) or "none"
            problem = "matches several GPU nodes" if nodes else "is not a GPU node"
            raise CommandRefused(f"{target} {problem} of the cluster; its GPU nodes: {choices}")
        return nodes


def take_waiting_commands(folder: Path, plan: Plan) -> None:
    """Answer the commands that arrived while no driver ran; they act when the run starts."""

    def act(command: Command) -> tuple[str, bool]:
        try:
            check_command(plan, command)
        except CommandRefused as problem:
            return str(problem), True
        if command.verb in HOLDS:
            return describe_hold(command, find_cells(plan, command)), False
        return "in force from the start of the run", False

    for entry in control_log.take_commands(folder, act):
        log.info("ctl: %s", entry.sentence)


def check_command(plan: Plan, command: Command) -> None:
    """Raise CommandRefused for a command that does not fit the sweep, or that is gone."""
    if command.verb in control_log.REMOVED:
        raise CommandRefused(control_log.REMOVED[command.verb])
    if command.verb in HOLDS:
        find_cells(plan, command)


def find_cells(plan: Plan, command: Command) -> list[str]:
    """Return the cells that a command's target matches, an empty list for the judge; raises CommandRefused."""
    cells = [cell.key for cell in plan.cells if matches(command.target, cell.key)]
    if not cells and not (command.verb in ("pause", "resume") and command.target == JUDGE):
        models = ", ".join(dict.fromkeys(cell.model.name for cell in plan.cells))
        raise CommandRefused(f"{command.target} matches no cell of this sweep; its models are {models[:300]}")
    return cells


def describe_hold(command: Command, cells: Sequence[str]) -> str:
    """Return ``6 cells are paused; episodes in play end and are stored``."""
    target = pluralize(len(cells), "cell") if cells else "the judge"
    consequence = "; episodes in play end and are stored" if command.verb in ("pause", "cancel") else ""
    return f"{target} {'is' if len(cells) < 2 else 'are'} {HOLDS[command.verb]}{consequence}"
