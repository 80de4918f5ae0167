"""Carries out the commands of ``proactive-sweep ctl`` in a running sweep, one by one, and logs their effect.

A command changes which worker plays what and when, never a stored row or its key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.plural import pluralize
from orchestrator.execution.retry_failed import requeue_episodes
from orchestrator.planning.plan import BUILTIN_GROUP, CellOrdinals, Plan, worker_group
from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.resources import shares
from orchestrator.storage import control_log
from orchestrator.storage.control_log import ALL, JUDGE, Command, LogEntry
from orchestrator.storage.control_state import ControlState, matches
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.spec import Sweep

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver

SHARES = ("cluster.gpus", "cluster.judge_gpus")
IN_FLIGHT = ".in_flight"
HOLDS = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "restore": "restored"}
"""Verb -> what its cells are afterwards, as a word of the reply."""
DRAINS = ("drain", "undrain")
MAX_IN_FLIGHT = 4096

log = logging.getLogger(__name__)


class CommandRefused(Exception):
    """A command cannot be carried out; the text of the exception is the whole reply."""


class LiveControl:
    """The commands to one run folder, carried out by its driver."""

    def __init__(self, driver: Driver, plan: Plan, folder: Path, standing: ControlState) -> None:
        """Apply the commands that are in force (``standing``), so that a new driver continues where the last one ended."""
        self.driver, self.plan, self.folder, self.standing = driver, plan, folder, standing
        self.cell_indexes = {cell.key: index for index, cell in enumerate(self.plan.cells)}
        self.handlers: dict[str, Callable[[Command], str]] = {
            **dict.fromkeys(HOLDS, self._hold),
            **dict.fromkeys(DRAINS, self._drain),
            "requeue": self._requeue,
            "set": self._set,
        }
        if standing.entries:
            self._hold_groups(driver.schedule.groups)
            self._restore_settings()

    def poll(self) -> None:
        """Carry out the commands that wait in ``control/``; raises OSError if the folder or its command log is unusable."""
        self.folder.stat()  # raises if the folder was moved; a paused run writes nothing that would fail, and gets no command
        for entry in control_log.take_commands(self.folder, self._act):
            (log.warning if entry.refused else log.info)("ctl: %s", entry.sentence)

    def _act(self, command: Command) -> tuple[str, bool]:
        """Return the effect of a command, and True if it was refused."""
        try:
            self._check(command)
            self.standing.add(LogEntry(name="", command=command, taken="", effect=""))
            return self.handlers[command.verb](command), False
        except CommandRefused as problem:
            return str(problem), True

    def _check(self, command: Command) -> None:
        """Raise CommandRefused, before anything is changed, for a command that cannot be carried out."""
        check_command(self.driver.pool.sweep, self.plan, command)
        if command.verb in DRAINS:
            self._find_nodes(command.target)
        groups = self.driver.schedule.groups.values()
        if command.verb == "requeue" and groups and all(group.demand.pool == JUDGES for group in groups):
            raise CommandRefused("only a judge runs here now; `run --retry failed` plays failed episodes again")

    # -- pause, resume, cancel, restore -------------------------------------------------------------------------------
    def _hold(self, command: Command) -> str:
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

    # -- requeue ------------------------------------------------------------------------------------------------------
    def _requeue(self, command: Command) -> str:
        """Play failed episodes of the cells again; their old rows are saved in the attempt's logs."""
        driver = self.driver
        ordinals = requeue_failed(driver.sink.store, self.plan, driver.attempt_log.folder, command)
        driver.sink.forget(ordinals)
        queues: dict[str, list[int]] = {}
        for ordinal in ordinals:
            queues.setdefault(worker_group(self.plan.cells[self.plan.task(ordinal)[0]].model), []).append(ordinal)
        for name, queue in queues.items():
            driver.act(driver.schedule.requeue(name, queue, driver.now()))
            self._hold_groups([name])
        return describe_requeue(ordinals)

    # -- set ----------------------------------------------------------------------------------------------------------
    def _set(self, command: Command) -> str:
        driver, pool = self.driver, self.driver.pool
        value = parse_setting(pool.sweep, command)
        if command.target in SHARES:
            cluster = pool.sweep.cluster.model_copy(update={command.target.partition(".")[2]: value})
            pool.sweep = pool.sweep.model_copy(update={"cluster": cluster})
            driver.act(driver.schedule.set_shares(shares(pool.sweep, driver.schedule.nodes.usable), driver.now()))
        else:
            assert value is not None, "only shares of GPUs may be set to all"
            name = command.target.removesuffix(IN_FLIGHT)
            pool.set_in_flight(name, value)
            driver.act(driver.schedule.set_concurrency(name, value, driver.now()))
        return f"{command.target} is {command.value}"

    # -- drain, undrain -----------------------------------------------------------------------------------------------
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

    def _restore_settings(self) -> None:
        for key, value in self.standing.settings.items():
            try:
                self._set(Command(verb="set", target=key, value=value))
            except CommandRefused as problem:
                log.warning("set %s=%s of an earlier attempt is ignored: %s", key, value, problem)
        if self.standing.drained:
            self._drain_nodes()


def take_waiting_commands(folder: Path, sweep: Sweep, plan: Plan, store: EpisodeStore, log_folder: Path) -> None:
    """Answer the commands that arrived while no driver ran; ``requeue`` acts at once, the others when the run starts."""

    def act(command: Command) -> tuple[str, bool]:
        try:
            check_command(sweep, plan, command)
            if command.verb == "requeue":
                return describe_requeue(requeue_failed(store, plan, log_folder, command)), False
            if command.verb in HOLDS:
                return describe_hold(command, find_cells(plan, command)), False
        except CommandRefused as problem:
            return str(problem), True
        return "in force from the start of the run", False

    for entry in control_log.take_commands(folder, act):
        log.info("ctl: %s", entry.sentence)


def check_command(sweep: Sweep, plan: Plan, command: Command) -> None:
    """Raise CommandRefused for a command that does not fit the sweep."""
    if command.verb == "set":
        parse_setting(sweep, command)
    elif command.verb not in DRAINS:
        find_cells(plan, command)


def find_cells(plan: Plan, command: Command) -> list[str]:
    """Return the cells that a command's target matches, an empty list for the judge; raises CommandRefused."""
    cells = [cell.key for cell in plan.cells if matches(command.target, cell.key)]
    if not cells and not (command.verb in ("pause", "resume") and command.target == JUDGE):
        models = ", ".join(dict.fromkeys(cell.model.name for cell in plan.cells))
        raise CommandRefused(f"{command.target} matches no cell of this sweep; its models are {models[:300]}")
    return cells


def requeue_failed(store: EpisodeStore, plan: Plan, log_folder: Path, command: Command) -> list[int]:
    """Make the failed episodes of a command's cells pending again; return their ordinals. Raises CommandRefused."""
    return requeue_episodes(store, plan, log_folder, cells=set(find_cells(plan, command)))


def parse_setting(sweep: Sweep, command: Command) -> int | None:
    """Return the value of a ``set`` command, None for ``all`` GPUs; raises CommandRefused."""
    key, value = command.target, command.value
    if key in SHARES and value == ALL:
        return None
    if key not in SHARES:
        _check_model_setting(sweep, key)
    if not value.isascii() or not value.isdigit() or len(value) > 9 or not 1 <= int(value) <= MAX_IN_FLIGHT:
        raise CommandRefused(
            f"{key}={value[:20]}: type a whole number from 1 to {MAX_IN_FLIGHT}" + ", or all" * (key in SHARES)
        )
    models = sweep.models if key == SHARES[0] else [sweep.judge.model] if sweep.judge else []
    if key in SHARES and int(value) < (needed := max((model.gpus for model in models), default=0)):
        raise CommandRefused(f"{key}={value} is less than the {needed:g} GPUs that one worker needs")
    return int(value)


def _check_model_setting(sweep: Sweep, key: str) -> None:
    """Raise CommandRefused if this is not ``NAME.in_flight`` of a model with workers of its own."""
    names = [model.name for model in sweep.models if worker_group(model) != BUILTIN_GROUP]
    if not key.endswith(IN_FLIGHT) or key.removesuffix(IN_FLIGHT) not in names:
        keys = ", ".join([*SHARES, *(f"{name}{IN_FLIGHT}" for name in names[:4])])
        raise CommandRefused(f"{key} cannot be set while a sweep runs; type one of {keys}")


def describe_hold(command: Command, cells: Sequence[str]) -> str:
    """Return ``6 cells are paused; episodes in play end and are stored``."""
    target = pluralize(len(cells), "cell") if cells else "the judge"
    consequence = "; episodes in play end and are stored" if command.verb in ("pause", "cancel") else ""
    return f"{target} {'is' if len(cells) < 2 else 'are'} {HOLDS[command.verb]}{consequence}"


def describe_requeue(ordinals: Sequence[int]) -> str:
    """Return ``2 failed episodes are pending again``."""
    return f"{pluralize(len(ordinals), 'failed episode')} {'is' if len(ordinals) == 1 else 'are'} pending again"
