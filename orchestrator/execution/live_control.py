"""Carries out the commands of ``proactive-sweep ctl``; they change which worker plays what and when, never a stored row."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envs.plural import pluralize
from orchestrator.planning.plan import Plan
from orchestrator.storage import control_log
from orchestrator.storage.control_log import JUDGE, UNDO, Command, ControlState, matches
from sweeps.protocol import Protocol

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver


class LiveControl:
    """The commands to one run folder, carried out by its driver."""

    def __init__(self, driver: Driver, plan: Plan, folder: Path, standing: ControlState) -> None:
        """Apply the commands that are in force (``standing``), so that a new driver continues where the last one ended."""
        self.driver, self.plan, self.folder, self.standing = driver, plan, folder, standing
        self._node_names: set[str] = set()
        if standing.commands:
            self._apply()

    def poll(self) -> None:
        """Carry out the commands that wait in ``control/``; raises OSError if the folder or its command log is unusable."""
        self.folder.stat()  # raises if the folder was moved; a paused run writes nothing that would fail, and gets no command
        taken = control_log.take_commands(self.folder, lambda c: describe_effect(c, self.plan, self._nodes()))
        self.standing.commands += taken
        if taken or (self.standing.commands and self._node_names != {node.name for node in self.driver.view.nodes}):
            self._apply()

    def _apply(self) -> None:
        """Hold paused episodes, withdraw cancelled ones, whose answers are still judged, and close the drained nodes."""
        driver, standing, cells = self.driver, self.standing, [*enumerate(self.plan.cells)]
        held = ({index for index, cell in cells if standing.find(verb, cell.key)} for verb in ("pause", "cancel"))
        paused, withdrawn = map(self.plan.ordinals, held)
        judge = driver.judge_queue.group if driver.judge_queue else ""
        for name in sorted(driver.schedule.groups):
            ordinals: tuple[Container[int], Container[int]] = (paused, withdrawn)
            if name == judge:
                ordinals = range(sys.maxsize if standing.find("pause", JUDGE) else 0), ()  # gold answers, too
            driver.act(driver.schedule.hold(name, *ordinals, driver.now()))
        nodes, drained = self._nodes(), set[str]()
        self._node_names = {*nodes}
        for command in standing.commands:  # a node may be drained by its host, and reopened by its name
            if command.verb == "drain":
                drained |= find_nodes(command.target, nodes)
            elif command.verb == "undrain":
                drained -= find_nodes(command.target, nodes)
        driver.drain(drained)

    def _nodes(self) -> dict[str, str]:
        """Return GPU node -> its host."""
        hosts = self.driver.hosts()
        return {node.name: hosts.get(node.name, "?") for node in self.driver.view.nodes}


def describe_effect(command: Command, plan: Plan, nodes: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """Return what a command applies to, or why it is refused, and True if it is refused.

    ``nodes``: GPU node -> host; None before the driver of the next attempt knows them.
    """
    target = command.target
    ending = "; episodes in play end and are stored" if command.verb in UNDO else ""
    if command.verb in ("drain", "undrain"):
        if nodes is None or find_nodes(target, nodes):
            return f"in force for node {target}{ending}", False
        choices = ", ".join(f"{host} ({name[:12]})" for name, host in [*nodes.items()][:8]) or "none"
        return f"{target} is not one GPU node of the cluster; its GPU nodes: {choices}", True
    count = sum(matches(target, cell.key) for cell in plan.cells)
    is_judge = target == JUDGE and command.verb in ("pause", "resume")
    if count or (is_judge and any(cell.protocol is Protocol.OEG for cell in plan.cells)):
        return f"in force for {pluralize(count, 'cell') if count else 'the judge'}{ending}", False
    models = ", ".join(dict.fromkeys(cell.model.name for cell in plan.cells))
    return f"{target} matches no cell of this sweep; its models are {models[:300]}", True


def find_nodes(target: str, nodes: Mapping[str, str]) -> set[str]:
    """Return the GPU nodes on a host, or the one node whose name begins so; none if several do."""
    named = {name for name in nodes if name.startswith(target)}
    return {name for name, host in nodes.items() if host == target} or (named if len(named) == 1 else set())
