"""The state of a running sweep after all commands of its control log: what is paused, canceled and drained."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from orchestrator.storage.control_log import ALL, Command, LogEntry, read_history

STATES = {"cancel": "cancelled", "pause": "paused"}
"""Verb that stops a cell -> the state of the cell."""


class ControlState:
    """The effect of the accepted commands of a log."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self.entries: list[LogEntry] = []
        """The accepted entries."""
        self.drained: set[str] = set()
        self._commands: dict[str, list[Command]] = {}
        """``pause`` or ``cancel`` -> these commands and those that take them back, from the last one on for ``all``."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: LogEntry) -> None:
        """Apply an entry of the log unless it was refused."""
        command = entry.command
        if entry.refused or command is None:
            return
        self.entries.append(entry)
        if command.verb == "drain":
            self.drained.add(command.target)
        elif command.verb == "undrain":
            self.drained.discard(command.target)
        else:
            stop = {"resume": "pause", "restore": "cancel"}.get(command.verb, command.verb)
            self._commands[stop] = [*(self._commands.get(stop, []) if command.target != ALL else ()), command]

    def pausing_command(self, cell: str) -> Command | None:
        """Return the command that pauses a cell, or ``judge``; None if it is not paused."""
        return self._find_last("pause", cell)

    def canceling_command(self, cell: str) -> Command | None:
        """Return the command that cancels a cell; None if it is not canceled."""
        return self._find_last("cancel", cell)

    def _find_last(self, verb: str, cell: str) -> Command | None:
        """Return the last command that names the cell if it has this verb."""
        commands = (command for command in reversed(self._commands.get(verb, [])) if matches(command.target, cell))
        last = next(commands, None)
        return last if last is not None and last.verb == verb else None

    def _stopping_command(self, cell: str) -> Command | None:
        return self.canceling_command(cell) or self.pausing_command(cell)

    def mark_cells(self, cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cells of a status; unfinished ones that are canceled or paused get this state and its reason."""
        commands = [
            (cell, self._stopping_command(cell["cell"]) if cell["finished"] < cell["planned"] else None)
            for cell in cells
        ]
        return [
            {**cell, "state": STATES[command.verb], "reason": command.description} if command else cell
            for cell, command in commands
        ]

    def sentences(self, cells: Iterable[str]) -> list[str]:
        """Return ``3 cells are cancelled (cancel u3 by ana on node1, 2026-11-22T12:00:00+00:00): u3/ROD/hint, ...``."""
        cells_by_command: dict[Command, list[str]] = {}
        for cell in cells if self.entries else ():
            if (command := self._stopping_command(cell)) is not None:
                cells_by_command.setdefault(command, []).append(cell)
        return [_describe(command, names) for command, names in cells_by_command.items()]


def read_control_state(folder: Path) -> ControlState:
    """Return the state after the log of a run folder. Raises DamagedRunError if the log is damaged."""
    return ControlState(read_history(folder))


def matches(target: str, cell: str) -> bool:
    """Return True if a target names a cell (``model/scenario/condition``), or ``judge``."""
    patterns, names = target.split("/"), cell.split("/")
    return target == ALL or (len(patterns) <= len(names) and all(map(fnmatchcase, names, patterns)))


def _describe(command: Command, cells: list[str]) -> str:
    undo = "restore" if command.verb == "cancel" else "resume"
    names = ", ".join(cells[:3]) + (", ..." if cells[3:] else "")
    count = "1 cell is" if len(cells) == 1 else f"{len(cells)} cells are"
    return f"{count} {STATES[command.verb]} ({command.description}; `ctl DIR {undo}` takes that back): {names}"
