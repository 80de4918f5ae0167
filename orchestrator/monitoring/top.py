"""A full-screen view of a running sweep: models, GPUs, rates, queues, errors, last replies, and keys for ``ctl``.

It only reads the run folder and leaves commands there, so it can be opened and closed at any time, on any machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl
from rich.markup import escape
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from actors.text.printable import one_line
from envs.errors import RunFolderError
from orchestrator.monitoring.render import format_row, headline
from orchestrator.monitoring.snapshot import GroupRow, Snapshot, count_by_model, parse_snapshot
from orchestrator.object_store.control_client import ControlClient
from orchestrator.planning.plan import BUILTIN_GROUP
from orchestrator.storage.control_log import ALL, JUDGE, parse_command
from orchestrator.storage.replica_time import describe
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.storage.status import read_status

REFRESH_INTERVAL_S = 2.0
"""Seconds between two readings of the run folder; its driver's snapshot is at most five seconds old."""
REPLIES, COMMANDS = 6, 4
"""Lines of each on the screen."""
MAX_REPLY_CHARS, MAX_REASON_CHARS = 300, 60


@dataclass(frozen=True)
class RunView:
    """The content of the screen, read from a run folder."""

    snapshot: Snapshot
    driver: str
    """Where the driver runs, or a note that none is running."""
    replies: tuple[str, ...]
    commands: tuple[str, ...]
    held: str = ""
    """A sentence on how replicas have spent their time; "" before any is recorded."""


class Top(App[None]):
    """The screen of one run."""

    TITLE = "proactive-sweep top"
    CSS = (
        "#head {height: auto; max-height: 3;} DataTable {height: 1fr;} #replies {height: 8;} #commands {height: 5;}"
        " Input {display: none;}"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "send('pause')", "pause"),
        Binding("r", "send('resume')", "resume"),
        Binding("f", "send('requeue')", "requeue failed"),
        Binding("P", "send_to_all('pause')", "pause all"),
        Binding("R", "send_to_all('resume')", "resume all"),
        Binding("colon", "open_input", "any command"),
        Binding("escape", "close_input", "back", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, output: str, folder: Callable[[], Path]) -> None:
        """``folder`` returns the run folder, or an up-to-date copy of a bucket's. Raises RunFolderError."""
        super().__init__()
        self.control, self.folder = ControlClient(output), folder

    def compose(self) -> ComposeResult:
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        with Vertical():
            yield Static(id="head")
            yield table
            yield Static(id="replies")
            yield Static(id="commands")
            yield Input(placeholder="cancel MODEL/SCENARIO, set cluster.gpus=4, drain NODE ...")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self.refresh_view()
        self.set_interval(REFRESH_INTERVAL_S, self.refresh_view)

    @work(thread=True, exclusive=True)
    def refresh_view(self) -> None:
        try:
            view = read_view(self.folder())
        except (RunFolderError, OSError) as error:
            self.call_from_thread(self._write, "head", one_line(str(error)))
            return
        self.call_from_thread(self._show, view)

    def _show(self, view: RunView) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        cursor = table.cursor_row
        rows = {row.name: row_texts(row) for row in view.snapshot.rows}
        first = next(iter(rows.values()), {})
        headings = [heading for heading in first if any(row[heading] for row in rows.values())]
        table.clear(columns=True)  # columns that are empty in every row are left out
        table.add_columns(*headings)
        for name, row in rows.items():
            table.add_row(*(Text(row[heading]) for heading in headings), key=name)
        table.move_cursor(row=min(cursor, max(0, table.row_count - 1)))
        self._write("head", *filter(None, (headline(view.snapshot), view.driver, view.held)))
        self._write("replies", "last replies", *view.replies)
        self._write("commands", "last commands", *view.commands)

    def _write(self, widget: str, *lines: str) -> None:
        """Show lines as they are: a string would be read as markup."""
        self.query_one(f"#{widget}", Static).update(Text("\n".join(lines)))

    # -- commands -----------------------------------------------------------------------------------------------------
    def action_send(self, verb: str) -> None:
        """Send a command for the model under the cursor."""
        table: DataTable[Text] = self.query_one(DataTable)
        if not table.row_count:
            return
        name = str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)
        if name == BUILTIN_GROUP:
            text = "built-in policies share workers: type : and a command with the policy's name"
            self.notify(text, severity="warning")
            return
        self.send([verb, JUDGE if name.startswith(f"{JUDGE}:") else name])

    def action_send_to_all(self, verb: str) -> None:
        self.send([verb, ALL])

    def action_open_input(self) -> None:
        line = self.query_one(Input)
        line.display = True
        line.focus()

    def action_close_input(self) -> None:
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        words = event.value.split()
        event.input.clear()
        self.action_close_input()
        if words:
            self.send(words)

    @work(thread=True)
    def send(self, words: list[str]) -> None:
        """Leave a command for the driver; its result appears under the last commands."""
        try:
            if len(words) > 2:
                raise RunFolderError("a command is a verb and one target")
            command = parse_command(words[0], words[1] if words[1:] else "")
            self.control.send(command)
            message, severity = f"sent: {command}", "information"
            if not self.control.running:
                message += "; no driver is running, so the next `run` starts with it"
        except (RunFolderError, OSError) as error:
            message, severity = one_line(str(error)), "error"
        self.call_from_thread(self.notify, escape(message), severity=severity)


def read_view(folder: Path) -> RunView:
    """Read a run folder; raises RunFolderError."""
    status = read_status(folder)
    running = status.get("running")
    snapshot = parse_snapshot(status.get("live")) or count_by_model(status["cells"])
    driver = f"process {running.get('pid', '?')} on {running.get('host', '?')}" if running else "no driver is running"
    history = ControlClient(str(folder)).read_history()[-COMMANDS:]
    commands = tuple(one_line(entry.sentence) for entry in reversed(history))
    return RunView(snapshot, one_line(driver), last_replies(folder), commands, "".join(describe(folder)))


def row_texts(row: GroupRow) -> dict[str, str]:
    """Return ``format_row``, with the reason for a lost worker in place of the time left."""
    texts = {heading: one_line(text) for heading, text in format_row(row).items()}
    is_lost = row.reason and row.done < row.planned
    return {**texts, "left": one_line(row.reason)[:MAX_REASON_CHARS]} if is_lost else texts


def last_replies(folder: Path, limit: int = REPLIES) -> tuple[str, ...]:
    """Return lines such as ``qwen/ROD/hint/0042-3fa9c1d2  turn 2: I cannot see ...`` from the newest part file of turns."""
    newest = max((folder / "turns").glob("part-*.parquet"), default=None)
    if newest is None:
        return ()
    try:
        rows = pl.read_parquet(newest, columns=["key", "turn", "reply"]).tail(limit)
    except UNREADABLE:
        return ()
    return tuple(one_line(f"{key}  turn {turn}: {reply}")[:MAX_REPLY_CHARS] for key, turn, reply in rows.iter_rows())
