"""Carries out the commands of ``proactive-sweep ctl``; they change which worker plays what and when, never a stored row."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envs.plural import pluralize
from orchestrator.planning.plan import CellOrdinals, Plan
from orchestrator.storage import control_log
from orchestrator.storage.control_log import HOLDS, JUDGE, Command, ControlState, matches

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver


class LiveControl:
    """The commands to one run folder, carried out by its driver."""

    def __init__(self, driver: Driver, plan: Plan, folder: Path, standing: ControlState) -> None:
        """Apply the commands that are in force (``standing``), so that a new driver continues where the last one ended."""
        self.driver, self.plan, self.folder, self.standing = driver, plan, folder, standing
        if standing.commands:
            self._apply()

    def poll(self) -> None:
        """Carry out the commands that wait in ``control/``; raises OSError if the folder or its command log is unusable."""
        self.folder.stat()  # raises if the folder was moved; a paused run writes nothing that would fail, and gets no command
        control_log.take_commands(self.folder, self._act)

    def _act(self, command: Command) -> tuple[str, bool]:
        effect, refused = describe_effect(command, self.plan, self._nodes())
        if not refused:
            self.standing.commands.append(command)
            self._apply()
        return effect, refused

    def _apply(self) -> None:
        """Hold paused episodes, withdraw cancelled ones, whose answers are still judged, and close the drained nodes."""
        driver, standing, keys = self.driver, self.standing, [cell.key for cell in self.plan.cells]
        paused = {index for index, key in enumerate(keys) if standing.pausing_command(key)}
        cancelled = {index for index, key in enumerate(keys) if standing.canceling_command(key)}
        judge = driver.judge_queue.group if driver.judge_queue else ""
        for name in sorted(driver.schedule.groups):
            held: Container[int] = CellOrdinals(self.plan.offsets, paused)
            withdrawn: Container[int] = CellOrdinals(self.plan.offsets, cancelled)
            if name == judge:
                held, withdrawn = range(self.plan.total) if standing.pausing_command(JUDGE) else (), ()
            driver.act(driver.schedule.hold(name, held, withdrawn, driver.now()))
        nodes = self._nodes()
        driver.drain({name for target in standing.drained for name in find_nodes(target, nodes)})

    def _nodes(self) -> dict[str, str]:
        """Return GPU node -> its host."""
        hosts = self.driver.hosts()
        return {node.name: hosts.get(node.name, "?") for node in self.driver.nodes}


def take_waiting_commands(folder: Path, plan: Plan) -> None:
    """Answer the commands that arrived while no driver ran; they act when the run starts."""
    control_log.take_commands(folder, lambda command: describe_effect(command, plan))


def describe_effect(command: Command, plan: Plan, nodes: Mapping[str, str] | None = None) -> tuple[str, bool]:
    """Return the effect of a command as a sentence, and True if it is refused; ``nodes``: GPU node -> host, if they are known."""
    if command.verb in HOLDS:
        return _describe_hold(command, plan)
    if nodes is None:
        return "in force from the start of the run", False
    if not find_nodes(command.target, nodes):
        choices = ", ".join(f"{host} ({name[:12]})" for name, host in [*nodes.items()][:8]) or "none"
        return f"{command.target} is not one GPU node of the cluster; its GPU nodes: {choices}", True
    if command.verb == "undrain":
        return f"{command.target} gets workers again", False
    return f"{command.target} gets no more workers; episodes in play there end and are stored", False


def _describe_hold(command: Command, plan: Plan) -> tuple[str, bool]:
    """Return ``6 cells are paused; episodes in play end and are stored``."""
    count = sum(matches(command.target, cell.key) for cell in plan.cells)
    if not count and not (command.verb in ("pause", "resume") and command.target == JUDGE):
        models = ", ".join(dict.fromkeys(cell.model.name for cell in plan.cells))
        return f"{command.target} matches no cell of this sweep; its models are {models[:300]}", True
    target = pluralize(count, "cell") if count else "the judge"
    consequence = "; episodes in play end and are stored" if command.verb in ("pause", "cancel") else ""
    return f"{target} {'is' if count < 2 else 'are'} {HOLDS[command.verb]}{consequence}", False


def find_nodes(target: str, nodes: Mapping[str, str]) -> set[str]:
    """Return the GPU nodes on a host, or the one node whose name begins so; none if several do."""
    named = {name for name in nodes if name.startswith(target)}
    return {name for name, host in nodes.items() if host == target} or (named if len(named) == 1 else set())
