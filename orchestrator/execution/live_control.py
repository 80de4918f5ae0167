"""Does what somebody asks of a running sweep (``proactive-sweep ctl``), command by command, and says what came of it.

A command only changes who plays what and when; what is stored, and under which key, it never changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.types import Ending
from orchestrator.execution.applied import Playable, Refused, accepted
from orchestrator.execution.applied import told as planned_now
from orchestrator.execution.retry_failed import taken_back
from orchestrator.planning.plan import BUILTIN_GROUP, OrdinalsOf, Plan, group
from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.resources import shares
from orchestrator.storage import control_log
from orchestrator.storage.control_log import ALL, APPLY, JUDGE, Command, Entry, Standing, matches
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.run_folder import resolved
from sweeps.spec import Sweep

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver

SHARES = ("cluster.gpus", "cluster.judge_gpus")
IN_FLIGHT = ".in_flight"
MOST_IN_FLIGHT = 4096
UNCHANGEABLE = "a person plays here, or answers are only judged: what is played is changed by another `run`"

log = logging.getLogger(__name__)


class LiveControl:
    """What was asked of one run folder, as its driver does it."""

    def __init__(self, driver: Driver, playing: Playable, folder: Path, standing: Standing, changeable: bool) -> None:
        """``standing`` of the folder's log is done at once, so that a new driver goes on where the last one was.

        ``changeable``: whether the sweep may become another one (``apply``).
        """
        self.driver, self.playing, self.folder, self.standing = driver, playing, folder, standing
        self.plan, self.changeable = playing.plan, changeable
        self.next: Playable | None = None
        """What is to be played once the leases have ended: nothing is handed out and no command is taken until then."""
        self.indexes = {cell.key: number for number, cell in enumerate(self.plan.cells)}
        self.done: dict[str, Callable[[Command], str]] = {
            "pause": self._hold,
            "resume": self._hold,
            "cancel": self._hold,
            "restore": self._hold,
            "requeue": self._requeue,
            "set": self._set,
            "drain": self._drain,
            "undrain": self._drain,
            "apply": self._apply,
        }
        if standing.entries:
            self._hold_groups(driver.schedule.groups)
            self._settle()

    def poll(self) -> None:
        """Take what waits in ``control/``; raises OSError where the log cannot be written."""
        if self.next is not None:
            if not any(slot.leases for slot in self.driver.schedule.slots.values()):
                self.driver.stop()
            return
        for entry in control_log.take(self.folder, self._act, lambda: resolved(self.playing.sweep)):
            (log.warning if entry.refused else log.info)("%s", told(entry))

    def _act(self, command: Command) -> tuple[str, bool]:
        """What came of a command, and whether it was refused."""
        try:
            self._check(command)
            self.standing.add(Entry(name="", command=command, taken="", effect=""))
            return self.done[command.verb](command), False
        except Refused as why:
            return str(why), True

    def _check(self, command: Command) -> None:
        """Raises Refused; nothing was changed."""
        if command.verb == "set":
            setting(self.driver.sweep, command)
        elif command.verb in ("drain", "undrain"):
            self._nodes({command.target})
        elif command.verb == APPLY:
            self._accept(command)
        else:
            cells_of(self.plan, command)
        groups = self.driver.schedule.groups.values()
        if command.verb == "requeue" and groups and all(one.demand.pool == JUDGES for one in groups):
            raise Refused(
                "answers are judged here now and nothing is played; `run --retry-failed` plays failed episodes again"
            )

    # -- pause, resume, cancel, restore -------------------------------------------------------------------------------
    def _hold(self, command: Command) -> str:
        cells = cells_of(self.plan, command)
        names = {group(self.plan.cells[self.indexes[cell]].model) for cell in cells}
        if self.driver.judge_queue is not None and matches(command.target, JUDGE):
            names.add(self.driver.judge_queue.group)
        self._hold_groups(names)
        return held(command, cells)

    def _hold_groups(self, names: Collection[str]) -> None:
        paused = {number for cell, number in self.indexes.items() if self.standing.paused(cell)}
        cancelled = {number for cell, number in self.indexes.items() if self.standing.cancelled(cell)}
        for name in list(names):
            self._hold_group(name, paused, cancelled)

    def _hold_group(self, name: str, paused: Collection[int], cancelled: Collection[int]) -> None:
        """Of a judge's group nothing is cancelled: an answer that is there is read."""
        driver, offsets = self.driver, self.plan.offsets
        if self.next is not None:
            driver.act(driver.schedule.hold(name, range(self.plan.total), (), driver.now()))
            return
        if driver.judge_queue is not None and name == driver.judge_queue.group:
            stopped = range(self.plan.total) if self.standing.paused(JUDGE) else ()
            driver.act(driver.schedule.hold(name, stopped, (), driver.now()))
            return
        both = OrdinalsOf(offsets, paused), OrdinalsOf(offsets, cancelled)
        driver.act(driver.schedule.hold(name, *both, driver.now()))

    # -- apply --------------------------------------------------------------------------------------------------------
    def _accept(self, command: Command) -> None:
        if not self.changeable:
            raise Refused(UNCHANGEABLE)
        self.next = accepted(self.playing.sweep, command)

    def _apply(self, command: Command) -> str:
        """Nothing more is handed out; once what is in play has ended, the driver leaves and the next attempt begins."""
        assert self.next is not None, "_check comes first"
        self._hold_groups(self.driver.schedule.groups)
        return planned_now(self.plan, self.next.plan)

    # -- requeue ------------------------------------------------------------------------------------------------------
    def _requeue(self, command: Command) -> str:
        """Failed episodes of the cells are taken out of the store, their rows kept in the attempt's logs, and played again."""
        driver = self.driver
        found = requeued(driver.sink.store, self.plan, driver.attempt_log.folder, command)
        driver.sink.forget(found)
        queues: dict[str, list[int]] = {}
        for ordinal in found:
            queues.setdefault(group(self.plan.cells[self.plan.task(ordinal)[0]].model), []).append(ordinal)
        for name, queue in queues.items():
            driver.act(driver.schedule.requeue(name, queue, driver.now()))
            self._hold_groups([name])
        return pending_again(found)

    # -- set ----------------------------------------------------------------------------------------------------------
    def _set(self, command: Command) -> str:
        value = setting(self.driver.sweep, command)
        if command.target in SHARES:
            self._share(command.target, value)
        else:
            assert value is not None, "only GPUs may be all"
            self._pace(command.target.removesuffix(IN_FLIGHT), value)
        return f"{command.target} is {command.value}"

    def _share(self, key: str, gpus: int | None) -> None:
        driver = self.driver
        cluster = driver.sweep.cluster.model_copy(update={key.partition(".")[2]: gpus})
        driver.sweep = driver.sweep.model_copy(update={"cluster": cluster})
        found = shares(driver.sweep, driver.schedule.nodes.total)
        driver.act(driver.schedule.reshare(found, driver.now()))

    def _pace(self, name: str, episodes: int) -> None:
        driver = self.driver
        driver.set_in_flight(name, episodes)
        driver.act(driver.schedule.repace(name, episodes, driver.now()))

    # -- nodes --------------------------------------------------------------------------------------------------------
    def _nodes(self, targets: Collection[str]) -> set[str]:
        """Ray's names of the nodes with GPUs that are so called, by host or by the beginning of Ray's name; raises Refused."""
        found, there = set[str](), self.driver.hosts()
        for target in targets:
            these = {n.name for n in self.driver.nodes if there.get(n.name) == target or n.name.startswith(target)}
            if not these or (len(these) > 1 and target not in there.values()):
                known = ", ".join(f"{there.get(n.name, '?')} ({n.name[:12]})" for n in self.driver.nodes[:8]) or "none"
                many = "names several nodes" if these else "names no node"
                raise Refused(f"{target} {many} with GPUs of the cluster; they are {known}")
            found |= these
        return found

    def _drain(self, command: Command) -> str:
        self._settle_nodes()
        if command.verb == "undrain":
            return f"{command.target} gets workers again"
        return f"{command.target} gets no worker any more; what is in play there ends and is stored"

    def _settle_nodes(self) -> None:
        """A node that is gone need not be kept free of workers."""
        names = set[str]()
        for target in self.standing.drained:
            try:
                names |= self._nodes({target})
            except Refused:
                log.warning("the drained node %s is not there", target)
        self.driver.act(self.driver.schedule.drain(names, self.driver.now()))

    def _settle(self) -> None:
        """Do again what earlier attempts' commands have set, as far as it still means something."""
        for key, value in self.standing.settings.items():
            try:
                self._set(Command(verb="set", target=key, value=value))
            except Refused as why:
                log.warning("set %s=%s, asked in an earlier attempt, is left out: %s", key, value, why)
        if self.standing.drained:
            self._settle_nodes()


def take_waiting(
    folder: Path, playing: Playable, store: EpisodeStore, log_folder: Path, changeable: bool = True
) -> Playable | None:
    """Before there is a driver: take what was asked while nobody played, for it may say that there is something to play.

    Answers what is to be played instead, if that was asked.
    """
    sweep, plan = playing.sweep, playing.plan
    found: list[Playable] = []

    def act(command: Command) -> tuple[str, bool]:
        try:
            if command.verb == APPLY and not changeable:
                raise Refused(UNCHANGEABLE)
            if command.verb == APPLY:
                found.append(accepted(sweep, command))
                return planned_now(plan, found[-1].plan), False
            if command.verb == "requeue":
                return pending_again(requeued(store, plan, log_folder, command)), False
            if command.verb == "set":
                setting(sweep, command)
            elif command.verb not in ("drain", "undrain"):
                return held(command, cells_of(plan, command)), False
        except Refused as why:
            return str(why), True
        return "it holds from the start of the run", False

    for entry in control_log.take(folder, act, lambda: resolved(sweep)):
        log.info("%s", told(entry))
    return found[-1] if found else None


def cells_of(plan: Plan, command: Command) -> list[str]:
    """The cells that a command names, none where it names the judge; raises Refused."""
    found = list(control_log.matching(command.target, (cell.key for cell in plan.cells)))
    if not found and not (command.verb in ("pause", "resume") and command.target == JUDGE):
        models = ", ".join(dict.fromkeys(cell.model.name for cell in plan.cells))
        raise Refused(f"{command.target} names no cell of this sweep; its models are {models[:300]}")
    return found


def held(command: Command, cells: Sequence[str]) -> str:
    """``6 cells are paused; what is in play ends and is stored``."""
    kinds = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "restore": "restored"}
    what = _count(len(cells), "cell") if cells else "the judge"
    ends = "; what is in play ends and is stored" if command.verb in ("pause", "cancel") else ""
    return f"{what} {'is' if len(cells) < 2 else 'are'} {kinds[command.verb]}{ends}"


def requeued(store: EpisodeStore, plan: Plan, log_folder: Path, command: Command) -> list[int]:
    """Take the failed episodes of a command's cells out of the store; their ordinals. Raises Refused."""
    return taken_back(store, plan, log_folder, (Ending.FAILED,), set(cells_of(plan, command)))


def pending_again(found: Sequence[int]) -> str:
    """``2 failed episodes are pending again``."""
    return f"{_count(len(found), 'failed episode')} {'is' if len(found) == 1 else 'are'} pending again"


def setting(sweep: Sweep, command: Command) -> int | None:
    """The value of a setting, None for ``all`` GPUs; raises Refused."""
    key, value = command.target, command.value
    if key in SHARES and value == ALL:
        return None
    if key not in SHARES:
        _known(sweep, key)
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:9]) <= MOST_IN_FLIGHT:
        raise Refused(f"{key} takes a whole number from 1 to {MOST_IN_FLIGHT}" + ", or all" * (key in SHARES))
    if key in SHARES and int(value) < (widest := _widest(sweep, key)):
        raise Refused(f"{key}={value} is less than the {widest:g} GPUs that one worker takes")
    return int(value)


def _known(sweep: Sweep, key: str) -> None:
    """Raises Refused where this is not ``NAME.in_flight`` of a model with workers of its own."""
    names = [model.name for model in sweep.models if group(model) != BUILTIN_GROUP]
    if not key.endswith(IN_FLIGHT) or key.removesuffix(IN_FLIGHT) not in names:
        known = ", ".join([*SHARES, *(f"{one}{IN_FLIGHT}" for one in names[:4])])
        raise Refused(f"{key} is nothing that can be set while a sweep runs; these can: {known}")


def _widest(sweep: Sweep, key: str) -> float:
    if key == SHARES[0]:
        return max(model.gpus for model in sweep.models)
    return sweep.judge.model.gpus if sweep.judge else 0


def told(entry: Entry) -> str:
    """``ctl: pause u3 by ana on node1, ...: 6 cells are paused``."""
    asked = entry.command.told if entry.command else f"control/{entry.name}"
    return f"ctl: {asked}: {'refused: ' if entry.refused else ''}{entry.effect}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def asked_for(plan: Plan, pending: Mapping[str, Sequence[int]], standing: Standing) -> Mapping[str, Sequence[int]]:
    """What is pending of cells that nobody has cancelled."""
    cancelled = {n for n, cell in enumerate(plan.cells) if standing.cancelled(cell.key)}
    if not cancelled:
        return pending
    left = {name: [o for o in queue if plan.task(o)[0] not in cancelled] for name, queue in pending.items()}
    return {name: queue for name, queue in left.items() if queue}
