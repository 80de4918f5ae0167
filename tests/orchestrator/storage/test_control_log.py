"""Commands in a run folder are taken once and in order, whatever else is there, and a log records their effects."""

import json
import os

import pytest

from envs.errors import RunFolderError
from orchestrator.storage import checksums
from orchestrator.storage.control_log import (
    LARGEST,
    LOG,
    Command,
    ControlState,
    LogEntry,
    matches,
    parse_command,
    read_control_state,
    read_history,
    send_command,
    take_commands,
    waiting_commands,
)


def execute(command: Command) -> tuple[str, bool]:
    return f"did {command.verb} {command.target}", False


def control_state(*commands: tuple[str, str]) -> ControlState:
    entries = [Command(verb=verb, target=target, who="ana on h, now") for verb, target in commands]
    return ControlState(
        LogEntry(name=str(n), command=command, taken="", effect="") for n, command in enumerate(entries)
    )


def test_commands_are_taken_once_in_order(tmp_path):
    for target in ("b", "a", "c"):
        send_command(tmp_path, parse_command("pause", target))

    for _ in range(2):
        take_commands(tmp_path, execute)
        assert [entry.effect for entry in read_history(tmp_path)] == ["did pause b", "did pause a", "did pause c"]
        assert not list((tmp_path / "control").iterdir())
    assert not checksums.damaged_files(tmp_path)
    assert not waiting_commands(tmp_path / ("x" * 300))  # no folder can have this name, so listing it fails


def test_logged_command_is_not_executed_again(tmp_path):
    """The driver died between the log and the removal of the file."""
    name = send_command(tmp_path, parse_command("cancel", "m"))
    content = (tmp_path / "control" / name).read_bytes()
    take_commands(tmp_path, execute)
    (tmp_path / "control" / name).write_bytes(content)

    take_commands(tmp_path, lambda command: pytest.fail("it is done twice"))
    assert not (tmp_path / "control" / name).exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 10_000, b"null", b'{"verb": "pause"}', b" " * (LARGEST + 1),
     b'{"verb": "pause", "target": 1}', json.dumps({"verb": "pause", "target": "x" * 301}).encode()],
)  # fmt: skip
def test_invalid_command_file_is_refused_and_removed(tmp_path, content):
    name = send_command(tmp_path, parse_command("pause", "m"))
    (tmp_path / "control" / name).write_bytes(content)

    take_commands(tmp_path, lambda command: pytest.fail("it is no command"))
    (entry,) = read_history(tmp_path)

    assert entry.refused and entry.command is None and not waiting_commands(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_special_files_are_neither_read_nor_waited_for(tmp_path, make):
    name = send_command(tmp_path, parse_command("pause", "m"))
    command_path = tmp_path / "control" / name
    command_path.unlink()
    make(command_path)
    send_command(tmp_path, parse_command("resume", "m"))

    for _ in range(2):
        take_commands(tmp_path, execute)
        assert [entry.refused for entry in read_history(tmp_path)] == [True, False]


def test_damaged_log_is_refused_and_nothing_is_taken(tmp_path):
    send_command(tmp_path, parse_command("pause", "m"))
    take_commands(tmp_path, execute)
    send_command(tmp_path, parse_command("resume", "m"))
    with (tmp_path / LOG).open("a") as file:
        file.write("{}\n")

    for read in (read_history, lambda folder: take_commands(folder, execute)):
        with pytest.raises(RunFolderError, match=r"is damaged .*; what was paused or cancelled is not known any more"):
            read(tmp_path)
    assert checksums.damaged_files(tmp_path) == [LOG]


@pytest.mark.parametrize(
    "target, cell, is_named",
    [
        ("all", "m/ROD/hint", True), ("m", "m/ROD/hint", True), ("m", "m2/ROD/hint", False), ("m*", "m2/ROD/hint", True),
        ("*/ROD", "m/ROD/hint", True), ("*/*/hint", "m/ROD/hint", True), ("*/*/hint", "m/ROD/hint-oeg", False),
        ("m/ROD/hint/0001", "m/ROD/hint", False), ("judge", "judge", True), ("m", "judge", False),
    ],
)  # fmt: skip
def test_a_target_names_cells_by_their_parts(target, cell, is_named):
    assert matches(target, cell) is is_named


def test_last_command_counts_separately_for_pause_and_cancel():
    state = control_state(("pause", "all"), ("cancel", "b"), ("resume", "a/*"), ("restore", "b/QD"))

    assert [bool(state.find("pause", cell)) for cell in ("a/ROD/x", "b/ROD/x", "judge")] == [False, True, True]
    assert [bool(state.find("cancel", cell)) for cell in ("a/ROD/x", "b/ROD/x", "b/QD/x")] == [False, True, False]
    assert state.sentences(["a/ROD/x", "b/ROD/x", "b/ROD/y", "b/QD/x"]) == [
        "2 cells cancelled: cancel b by ana on h, now (`ctl DIR restore` takes that back)",
        "1 cell paused: pause all by ana on h, now (`ctl DIR resume` takes that back)",
    ]
    counts = (("b/ROD/x", 1), ("b/ROD/y", 2))
    cells = [{"cell": cell, "planned": 2, "finished": n, "state": "s", "reason": ""} for cell, n in counts]
    marked = [*map(state.mark_cell, cells)]
    assert [cell["state"] for cell in marked] == ["cancelled", "s"], "a finished cell stays as it is"
    assert marked[0]["reason"] == "cancel b by ana on h, now"


@pytest.mark.parametrize("verb, target", [("cancel", ""), ("drain", "n" * 301), ("halt", "all")])
def test_invalid_command_is_refused(verb, target):
    with pytest.raises(RunFolderError, match="is no command; type pause, cancel, drain, resume"):
        parse_command(verb, target)


def test_only_accepted_commands_are_in_force(tmp_path):
    for typed in ("drain n1", "drain n2", "undrain n1", "pause a", "drain n3"):
        send_command(tmp_path, parse_command(*typed.split(" ")))
    take_commands(tmp_path, lambda command: ("", command.target in ("a", "n3")))
    accepted = [f"{command.verb} {command.target}" for command in read_control_state(tmp_path).commands]
    assert accepted == ["drain n1", "drain n2", "undrain n1"]


def test_a_line_of_another_version_has_no_effect(tmp_path):
    send_command(tmp_path, parse_command("pause", "m"))
    take_commands(tmp_path, execute)
    content = (tmp_path / LOG).read_bytes()
    checksums.write(tmp_path / LOG, b'{"name": "x", "command": {"verb": "fly"}}\n\xff\n' + content)

    assert len(read_history(tmp_path)) == 1
