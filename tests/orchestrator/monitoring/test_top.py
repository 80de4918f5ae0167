"""The full-screen view on a real run folder, driven by textual's own pilot."""

import asyncio

import pytest
from textual.widgets import DataTable, Input, Static
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.monitoring import snapshot
from orchestrator.monitoring.snapshot import GroupRow, Snapshot
from orchestrator.monitoring.top import RunView, Top, last_replies, read_view
from orchestrator.storage import control_log, lock, replica_time
from orchestrator.storage.replica_time import ReplicaTime
from tests.orchestrator.report import runs

ROWS = (
    GroupRow("qwen", ready=2, gpus=4, done=70, planned=140, rate=3.25, waiting=40, in_flight=30, errors=2, at_once=64),
    GroupRow("judge:reader", judges=True, ready=1, done=5, planned=9),
    GroupRow("builtin", done=3, planned=7, paused=4),
)


@pytest.fixture
def folder(tmp_path, demo_data):
    path = tmp_path / "run"
    runs.play_sweep(path, runs.sweep(demo_data, ["uniform"], ["hint"]))
    return path


async def wait_until_idle(view) -> None:
    """Wait until every refresh has ended; on a slow machine, the next refresh may replace one."""
    while not all(worker.is_finished for worker in view.workers):
        await asyncio.sleep(0.01)


def drive_view(folder, *keys: str, typed: str = "") -> dict[str, str]:
    """Return the screen after these keys and a typed line; the app refreshes at least once before and after them."""

    async def pilot() -> dict[str, str]:
        view = Top(str(folder), lambda: folder)
        async with view.run_test(size=(150, 40), notifications=True) as user:
            await wait_until_idle(view)
            await user.press(*keys)
            if typed:
                await user.press("colon")
                view.query_one(Input).value = typed
                await user.press("enter")
            await wait_until_idle(view)
            view.refresh_view()
            await wait_until_idle(view)
            await user.pause()
            table = view.query_one(DataTable)
            rows = [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]
            screen = {
                name: str(view.query_one(f"#{name}", Static).renderable) for name in ("head", "replies", "commands")
            }
            notifications = " ".join(str(notification.message) for notification in view._notifications)
            screen["columns"] = " ".join(str(column.label) for column in table.ordered_columns)
            screen["at"] = str(table.cursor_row)
            return {**screen, "table": "\n".join(" ".join(filter(None, row)) for row in rows), "told": notifications}

    return asyncio.run(pilot())


def hold_driver(folder):
    snapshot.write(folder, Snapshot(1.0, 73, 147, 3.25, 20.0, 8, ROWS))
    return lock.hold(folder, "driver")


def read_commands(folder) -> list[str]:
    commands = []
    control_log.take_commands(folder, lambda command: (commands.append(str(command)) or "done", False))
    return commands


def test_screen_shows_models_driver_and_last_replies(folder):
    with hold_driver(folder):
        screen = drive_view(folder)

    assert screen["head"].startswith("73 of 147 episodes (50%), 3.2/s, 20 s left\nprocess ")
    assert screen["table"].splitlines()[0] == "qwen 2 4 64 70/140 3.2 40 30 2"
    assert screen["replies"].splitlines()[1:] == list(last_replies(folder)) and len(last_replies(folder)) == 6


def test_third_line_says_what_replicas_did(folder):
    assert drive_view(folder)["head"].count("\n") == 1, "no ledger, no line"

    replica_time.write_attempts(folder, {"1": {"qwen": ReplicaTime(gpus=2, loading=900, playing=2700)}})
    assert drive_view(folder)["head"].splitlines()[2] == "2.0 GPU-hours held: 25% loading, 75% playing"


def test_empty_columns_are_hidden_and_cursor_stays(folder):
    """Otherwise, at 110 columns, the remaining time would not fit."""
    with hold_driver(folder):
        screen = drive_view(folder, "down", "down")
        snapshot.write(
            folder, Snapshot(1.0, 70, 140, 3.25, 20.0, 8, (GroupRow("qwen", done=70, planned=140, rate=3.25),))
        )
        fewer = drive_view(folder)

    assert screen["columns"] == "model replicas GPUs at once episodes /s waiting playing paused errors left"
    assert screen["at"] == "2"
    assert fewer["columns"] == "model episodes /s"


def test_run_without_driver_is_counted(folder):
    screen = drive_view(folder)

    assert screen["head"].endswith("no driver is running")
    assert screen["table"] == "uniform 70/70 done"


@pytest.mark.parametrize(
    "keys, command",
    [
        (("p",), "pause qwen"), (("r",), "resume qwen"), (("f",), "requeue qwen"), (("P",), "pause all"),
        (("R",), "resume all"), (("down", "p"), "pause judge"),
    ],
)  # fmt: skip
def test_key_sends_command_for_selected_model(folder, keys, command):
    with hold_driver(folder):
        screen = drive_view(folder, *keys)

    assert read_commands(folder) == [command]
    assert f"sent: {command}" in screen["told"]


def test_typed_command_and_its_answer_are_shown(folder):
    with hold_driver(folder):
        drive_view(folder, typed="set cluster.gpus=4")
        assert read_commands(folder) == ["set cluster.gpus=4"]
        screen = drive_view(folder)

    assert ": done" in screen["commands"] and "set cluster.gpus=4 by " in screen["commands"]


def test_last_four_commands_are_listed_newest_first(folder):
    for number in range(6):
        control_log.send_command(folder, control_log.make_command("pause", "uniform"))
        control_log.take_commands(folder, lambda command, number=number: (f"effect {number}", False))
    sentences = [entry.sentence for entry in control_log.read_history(folder)]
    commands = read_view(folder).commands
    assert list(commands) == sentences[:1:-1] and len(commands) == 4
    assert [command.rpartition(": ")[2] for command in commands] == [f"effect {number}" for number in (5, 4, 3, 2)]


@pytest.mark.parametrize("text", ["frob all", "cancel", "pause a b", "set x"])
def test_invalid_command_is_reported_and_not_sent(folder, text):
    with hold_driver(folder):
        screen = drive_view(folder, typed=text)

    assert screen["told"] and not read_commands(folder)


def test_builtin_policy_pool_cannot_be_targeted(folder):
    with hold_driver(folder):
        screen = drive_view(folder, "down", "down", "p")

    assert "share workers" in screen["told"] and not read_commands(folder)


def test_control_characters_and_markup_of_replies_are_shown_as_text(folder, monkeypatch):
    row = GroupRow("[red]odd[/]\x1b[31m", done=1, planned=2, reason="\x07[b]")
    with lock.hold(folder, "driver"):
        snapshot.write(folder, Snapshot(1.0, 1, 2, 0.0, None, 0, (row,)))
        screen = drive_view(folder)

    assert "[red]odd[/]" in screen["table"] and "\x1b" not in screen["table"] and "\x07" not in screen["table"]


def test_top_without_terminal_is_refused(folder):
    done = CliRunner().invoke(app, ["top", str(folder)])

    assert done.exit_code == 2 and "top needs a terminal" in done.output and done.output.count("\n") == 1


def test_every_key_is_explained_at_the_bottom():
    bindings = {binding.key: (binding.action, binding.description, binding.show) for binding in Top.BINDINGS}

    assert bindings == {
        "p": ("send('pause')", "pause", True), "r": ("send('resume')", "resume", True),
        "f": ("send('requeue')", "requeue failed", True), "P": ("send_to_all('pause')", "pause all", True),
        "R": ("send_to_all('resume')", "resume all", True), "colon": ("open_input", "any command", True),
        "escape": ("close_input", "back", False), "q": ("quit", "quit", True),
    }  # fmt: skip
    assert Top.TITLE == "proactive-sweep top"


def test_markup_in_an_error_or_a_reply_is_text(folder):
    """A reply must neither color the screen, nor offer an action to click, nor end the view by a tag that it does not open."""
    hostile = "[/nope] [@click=app.quit]click[/]"

    def refuse():
        raise RunFolderError(f"{hostile}\nfor good")

    async def pilot():
        view = Top(str(folder), refuse)
        async with view.run_test(size=(150, 40)):
            await wait_until_idle(view)
            heads = [view.query_one("#head", Static).renderable]
            view._show(RunView(Snapshot(1.0, 1, 2, 0.0, None, 0), hostile, (hostile,), (hostile,)))
            heads += [view.query_one(f"#{name}", Static).renderable for name in ("head", "replies", "commands")]
            return [(text.plain, text.spans) for text in heads], view.query_one(Input).placeholder

    shown, placeholder = asyncio.run(pilot())
    assert shown == [
        (f"{hostile} for good", []), (f"1 of 2 episodes (50%), 0/s\n{hostile}", []), (f"last replies\n{hostile}", []),
        (f"last commands\n{hostile}", []),
    ]  # fmt: skip
    assert placeholder == "cancel MODEL/SCENARIO, set cluster.gpus=4, drain NODE ..."
