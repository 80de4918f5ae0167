"""A full-screen view of a running sweep: models, GPUs, rates, queues, errors, last replies; and ``ctl`` by key.

It only reads the run folder and leaves commands there, so it may be opened and closed at any time, from any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from rich.markup import escape
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from actors.printable import one_line
from orchestrator.monitoring.render import headline, span
from orchestrator.monitoring.snapshot import Row, Snapshot, counted, from_json
from orchestrator.object_store.asking import Asking
from orchestrator.planning.sweep_change import under_way
from orchestrator.storage.control_log import ALL, JUDGE, Entry, typed
from orchestrator.storage.episode_store import UNREADABLE
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import read_status

LOOK_INTERVAL_S = 2.0
"""Seconds between two looks at the run folder; what its driver tells is at most five seconds old."""
REPLIES, COMMANDS = 6, 4
"""Of each, how many are shown."""
BUILTIN = "builtin"
COLUMNS = ("model", "replicas", "GPUs", "at once", "episodes", "/s", "waiting", "playing", "paused", "errors", "left")


@dataclass(frozen=True)
class Seen:
    """One look at a run folder."""

    snapshot: Snapshot
    who: str
    replies: tuple[str, ...]
    commands: tuple[str, ...]


class Top(App[None]):
    """The view of one run."""

    TITLE = "proactive-sweep top"
    CSS = "#head {height: 2;} DataTable {height: 1fr;} #replies {height: 8;} #commands {height: 5;} Input {display: none;}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "ask('pause')", "pause"),
        Binding("r", "ask('resume')", "resume"),
        Binding("f", "ask('requeue')", "requeue failed"),
        Binding("P", "ask_all('pause')", "pause all"),
        Binding("R", "ask_all('resume')", "resume all"),
        Binding("colon", "type", "any command"),
        Binding("escape", "leave", "back", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, output: str, folder: Callable[[], Path]) -> None:
        """``folder``: the run folder as it is now; of a bucket a copy that is brought up to date. Raises RunFolderError."""
        super().__init__()
        self.place, self.folder = Asking(output), folder

    def compose(self) -> ComposeResult:
        """Head, models, last replies, last commands, a line to type in."""
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        with Vertical():
            yield Static(id="head", markup=False)
            yield table
            yield Static(id="replies", markup=False)
            yield Static(id="commands", markup=False)
            yield Input(placeholder="cancel MODEL/SCENARIO, set cluster.gpus=4, drain NODE ...")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(DataTable).focus()
        self.look()
        self.set_interval(LOOK_INTERVAL_S, self.look)

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Read the folder beside the screen, and show it."""
        try:
            found = seen(self.folder())
        except (RunFolderError, OSError) as problem:
            self.call_from_thread(self.query_one("#head", Static).update, one_line(str(problem)))
            return
        self.call_from_thread(self._show, found)

    def _show(self, found: Seen) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        at = table.cursor_row
        rows = {row.name: cells(row) for row in found.snapshot.rows}
        shown = [n for n in range(len(COLUMNS)) if not rows or any(row[n] for row in rows.values())]
        table.clear(columns=True)  # what says nothing of any model takes no room from what does
        table.add_columns(*(COLUMNS[n] for n in shown))
        for name, row in rows.items():
            table.add_row(*(Text(row[n]) for n in shown), key=name)
        table.move_cursor(row=min(at, max(0, table.row_count - 1)))
        self.query_one("#head", Static).update(f"{headline(found.snapshot)}\n{found.who}")
        self.query_one("#replies", Static).update("\n".join(("last replies", *found.replies)))
        self.query_one("#commands", Static).update("\n".join(("last commands", *found.commands)))

    # -- commands -----------------------------------------------------------------------------------------------------
    def action_ask(self, verb: str) -> None:
        """Ask something of the model under the cursor."""
        table: DataTable[Text] = self.query_one(DataTable)
        if not table.row_count:
            return
        name = str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)
        if name == BUILTIN:
            self.notify("the built-in policies share workers: type : and their name", severity="warning")
            return
        self.ask([verb, JUDGE if name.startswith(f"{JUDGE}:") else name])

    def action_ask_all(self, verb: str) -> None:
        """Ask something of the whole run."""
        self.ask([verb, ALL])

    def action_type(self) -> None:
        """Open the line for a command."""
        line = self.query_one(Input)
        line.display = True
        line.focus()

    def action_leave(self) -> None:
        """Close the line for a command."""
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Ask what was typed."""
        words = event.value.split()
        event.input.clear()
        self.action_leave()
        if words:
            self.ask(words)

    @work(thread=True)
    def ask(self, words: list[str]) -> None:
        """Leave a command; what comes of it stands under the last commands."""
        try:
            if len(words) > 2:
                raise RunFolderError("a command is a verb and one target")
            asked = typed(words[0], words[1] if words[1:] else "")
            self.place.ask(asked)
            told, severity = f"asked: {asked}", "information"
            if not self.place.running:
                told += "; nobody plays here now, so the next `run` begins with it"
        except (RunFolderError, OSError) as problem:
            told, severity = one_line(str(problem)), "error"
        self.call_from_thread(self.notify, escape(told), severity=severity)


def seen(folder: Path) -> Seen:
    """One look; raises RunFolderError."""
    status = read_status(folder)
    running, live = status.get("running"), from_json(status.get("live"))
    who = f"process {running.get('pid', '?')} on {running.get('host', '?')}" if running else "nobody plays here now"
    if live is None:
        rows = counted(status["cells"])
        live = Snapshot(0.0, sum(row.done for row in rows), sum(row.planned for row in rows), 0.0, None, 0, rows)
    if (by := under_way(folder)) is not None:
        who += f"; under way: {by}: " + ("what is in play ends first" if running else "the next `run` begins with it")
    history = Asking(str(folder)).history()[-COMMANDS:]
    return Seen(live, one_line(who), last_replies(folder), tuple(one_line(told(entry)) for entry in reversed(history)))


def cells(row: Row) -> tuple[str, ...]:
    """In the order of ``COLUMNS``; empty where there is nothing to say."""
    counts = (row.waiting, row.in_flight, row.paused, row.errors)
    return (
        one_line(row.name),
        f"{row.ready}" + (f" +{row.starting}" if row.starting else "") if row.ready or row.starting else "",
        f"{row.gpus:g}" if row.gpus else "",
        f"{row.at_once:,}" if row.at_once > 1 else "",
        f"{row.done:,}/{row.planned:,}",
        f"{row.rate:.3g}" if row.rate else "",
        *(f"{count:,}" if count else "" for count in counts),
        "done" if row.done >= row.planned else one_line(row.reason)[:60] or span(row.seconds_left),
    )


def last_replies(folder: Path, most: int = REPLIES) -> tuple[str, ...]:
    """``qwen/ROD/hint/0042-3fa9c1d2  turn 2: I cannot see ...``, of the part of turns that was stored last."""
    newest = max((folder / "turns").glob("part-*.parquet"), default=None)
    if newest is None:
        return ()
    try:
        rows = pl.read_parquet(newest, columns=["key", "turn", "reply"]).tail(most)
    except UNREADABLE:
        return ()
    return tuple(one_line(f"{key}  turn {turn}: {reply}")[:300] for key, turn, reply in rows.iter_rows())


def told(entry: Entry) -> str:
    """``pause u3 by ana on node1, ...: 6 cells are paused``."""
    asked: Any = entry.command.told if entry.command else f"control/{entry.name}"
    return f"{asked}: {'refused: ' if entry.refused else ''}{entry.effect}"
