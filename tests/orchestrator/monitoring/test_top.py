"""The full-screen view on a real run folder, driven by textual's own pilot."""

import asyncio

import pytest
from textual.widgets import DataTable, Input, Static
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.monitoring import snapshot
from orchestrator.monitoring.snapshot import GroupRow, Snapshot
from orchestrator.monitoring.top import Top, last_replies
from orchestrator.storage import control_log, lock
from tests.orchestrator.report import runs

ROWS = (
    GroupRow("qwen", ready=2, gpus=4, done=70, planned=140, rate=3.25, waiting=40, in_flight=30, errors=2, at_once=64),
    GroupRow("judge:reader", judges=True, ready=1, done=5, planned=9),
    GroupRow("builtin", done=3, planned=7, paused=4),
)


@pytest.fixture
def folder(tmp_path, demo_data):
    place = tmp_path / "run"
    runs.played(place, runs.sweep(demo_data, ["uniform"], ["hint"]))
    return place


async def settled(view) -> None:
    """Until every look has ended; on a slow machine one may be replaced by the next before that."""
    while not all(worker.is_finished for worker in view.workers):
        await asyncio.sleep(0.01)


def driven(folder, *keys: str, typed: str = "") -> dict[str, str]:
    """What stands where after these keys, and a line that was typed; the app has looked at least once before and after."""

    async def pilot() -> dict[str, str]:
        view = Top(str(folder), lambda: folder)
        async with view.run_test(size=(150, 40), notifications=True) as user:
            await settled(view)
            await user.press(*keys)
            if typed:
                await user.press("colon")
                view.query_one(Input).value = typed
                await user.press("enter")
            await settled(view)
            view.refresh_view()
            await settled(view)
            await user.pause()
            table = view.query_one(DataTable)
            rows = [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]
            shown = {
                name: str(view.query_one(f"#{name}", Static).renderable) for name in ("head", "replies", "commands")
            }
            told = " ".join(str(one.message) for one in view._notifications)
            shown["columns"] = " ".join(str(column.label) for column in table.ordered_columns)
            shown["at"] = str(table.cursor_row)
            return {**shown, "table": "\n".join(" ".join(filter(None, row)) for row in rows), "told": told}

    return asyncio.run(pilot())


def playing(folder):
    snapshot.write(folder, Snapshot(1.0, 73, 147, 3.25, 20.0, 8, ROWS))
    return lock.hold(folder, "driver")


def asked(folder) -> list[str]:
    found = []
    control_log.take_commands(folder, lambda one: (found.append(str(one)) or "done", False))
    return found


def test_models_who_plays_and_the_last_replies_are_on_the_screen(folder):
    with playing(folder):
        shown = driven(folder)

    assert shown["head"].startswith("73 of 147 episodes (50%), 3.2/s, 20 s left\nprocess ")
    assert shown["table"].splitlines()[0] == "qwen 2 4 64 70/140 3.2 40 30 2"
    assert shown["replies"].splitlines()[1:] == list(last_replies(folder)) and len(last_replies(folder)) == 6


def test_only_columns_that_say_something_are_shown_and_the_cursor_stays(folder):
    """At 110 columns how long it still takes would else be beyond the edge."""
    with playing(folder):
        shown = driven(folder, "down", "down")
        snapshot.write(
            folder, Snapshot(1.0, 70, 140, 3.25, 20.0, 8, (GroupRow("qwen", done=70, planned=140, rate=3.25),))
        )
        fewer = driven(folder)

    assert shown["columns"] == "model replicas GPUs at once episodes /s waiting playing paused errors left"
    assert shown["at"] == "2"
    assert fewer["columns"] == "model episodes /s"


def test_a_run_that_nobody_plays_is_counted(folder):
    shown = driven(folder)

    assert shown["head"].endswith("no driver is running")
    assert shown["table"] == "uniform 70/70 done"


@pytest.mark.parametrize(
    "keys, command",
    [
        (("p",), "pause qwen"), (("r",), "resume qwen"), (("f",), "requeue qwen"), (("P",), "pause all"),
        (("R",), "resume all"), (("down", "p"), "pause judge"),
    ],
)  # fmt: skip
def test_a_key_asks_of_the_model_under_the_cursor(folder, keys, command):
    with playing(folder):
        shown = driven(folder, *keys)

    assert asked(folder) == [command]
    assert f"sent: {command}" in shown["told"]


def test_any_command_can_be_typed_and_its_answer_stands_on_the_screen(folder):
    with playing(folder):
        driven(folder, typed="set cluster.gpus=4")
        assert asked(folder) == ["set cluster.gpus=4"]
        shown = driven(folder)

    assert ": done" in shown["commands"] and "set cluster.gpus=4 by " in shown["commands"]


@pytest.mark.parametrize("text", ["frob all", "cancel", "pause a b", "set x"])
def test_what_is_no_command_is_told_and_not_asked(folder, text):
    with playing(folder):
        shown = driven(folder, typed=text)

    assert shown["told"] and not asked(folder)


def test_the_pool_of_built_in_policies_is_no_target(folder):
    with playing(folder):
        shown = driven(folder, "down", "down", "p")

    assert "share workers" in shown["told"] and not asked(folder)


def test_control_characters_and_markup_of_replies_are_shown_as_text(folder, monkeypatch):
    row = GroupRow("[red]odd[/]\x1b[31m", done=1, planned=2, reason="\x07[b]")
    with lock.hold(folder, "driver"):
        snapshot.write(folder, Snapshot(1.0, 1, 2, 0.0, None, 0, (row,)))
        shown = driven(folder)

    assert "[red]odd[/]" in shown["table"] and "\x1b" not in shown["table"] and "\x07" not in shown["table"]


def test_without_a_terminal_it_is_one_sentence(folder):
    done = CliRunner().invoke(app, ["top", str(folder)])

    assert done.exit_code == 2 and "top needs a terminal" in done.output and done.output.count("\n") == 1
