"""``ctl`` as it is typed: one sentence each, in a folder and in a bucket; no Ray is needed to ask."""

import json

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.object_store import run_location as remote
from orchestrator.storage import control_log, lock, run_folder
from orchestrator.storage.status import read_status
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.report import runs


@pytest.fixture
def folder(tmp_path, demo_data):
    """A run folder of one model and condition, of which nothing is stored but one scenario."""
    place = tmp_path / "run"
    runs.played(place, runs.sweep(demo_data, ["uniform"], ["hint"]))
    return place


def typed(*words: object):
    done = CliRunner().invoke(app, ["ctl", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_what_is_asked_where_nobody_plays_is_kept_and_said(folder):
    done = typed(folder, "cancel", "uniform/ROD")

    assert done.exit_code == 0
    assert done.output == f"{folder} is not running; the next `run` starts with cancel uniform/ROD\n"
    (name,) = control_log.waiting_commands(folder)
    assert json.loads((folder / "control" / name).read_text())["verb"] == "cancel"
    assert typed(folder).output == "no command was sent to this run\n"


@pytest.mark.parametrize("refused", [False, True])
def test_the_answer_of_the_driver_is_printed(folder, monkeypatch, refused):
    """A driver that looks as soon as something is asked."""
    real = control_log.send_command

    def asked_and_taken(place, one):
        name = real(place, one)
        control_log.take_commands(place, lambda command: ("6 cells are \x1b[31mpaused", refused))
        return name

    monkeypatch.setattr(control_log, "send_command", asked_and_taken)
    with lock.hold(folder, "driver"):
        done = typed(folder, "pause")

    assert "\x1b" not in done.output
    assert done.exit_code == (2 if refused else 0)
    assert ("pause all is refused: 6 cells are" if refused else "6 cells are") in done.output
    assert "6 cells are" in typed(folder).output
    (entry,) = json.loads(typed(folder, "--json").stdout)
    assert (entry["command"]["verb"], entry["refused"]) == ("pause", refused)


def test_a_driver_that_does_not_answer_is_told(folder):
    with lock.hold(folder, "driver"):
        done = typed(folder, "pause", "--wait", "0")

    assert done.exit_code == 1
    assert "the driver did not take it within 0 s" in done.output


@pytest.mark.parametrize(
    "words, why",
    [
        (["frob"], "ctl does not know frob; type one of pause, resume, cancel,"),
        (["cancel"], "cancel takes a target"),
        (["drain"], "drain takes a target"),
        (["drain", "n1"], "so it has no nodes to drain"),
        (["set", "cluster.gpus"], "set takes KEY=VALUE"),
        (["set", "=4"], "set takes KEY=VALUE"),
        (["apply", "v2.toml"], "`ctl apply` was removed; stop the run, edit its sweep file, and start it again with"),
        (["pause", "x" * 301], "pause takes a target of at most 300 characters"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(folder, words, why):
    done = typed(folder, *words)

    assert done.exit_code == 2 and why in done.output and done.output.count("\n") == 1
    assert not control_log.waiting_commands(folder)


def test_a_folder_without_a_run_is_one_sentence(tmp_path):
    done = typed(tmp_path, "pause")

    assert done.exit_code == 2 and "holds no run" in done.output
    assert not list(tmp_path.iterdir())


def test_status_and_report_say_what_is_cancelled(folder):
    control_log.send_command(folder, control_log.make_command("cancel", "all"))
    control_log.take_commands(folder, lambda one: ("", False))
    planned = run_folder.planned_cells(folder)
    with lock.hold(folder, "driver"):
        run_folder.write_plan(folder, _planned(planned, more=5))

    states = {cell["state"] for cell in read_status(folder)["cells"]}
    told = CliRunner().invoke(app, ["report", str(folder), "--json"])

    assert states == {"cancelled"}
    (note,) = [note for note in json.loads(told.stdout)["notes"] if "cancelled" in note]
    assert note.startswith(f"{len(planned)} cells are cancelled (cancel all by ")


def _planned(cells, more):
    import polars as pl

    return pl.DataFrame([{**cell, "planned": cell["planned"] + more} for cell in cells])


def test_a_command_to_a_run_in_a_bucket_reaches_its_driver_and_the_answer_comes_back(url, folder):
    with remote.open_location(url, str) as place:
        for path in (run_folder.RESOLVED, run_folder.PLAN):
            (place.folder / path).write_bytes((folder / path).read_bytes())
        wait_for(lambda: typed(url, "pause", "--wait", "0").exit_code == 1)
        wait_for(lambda: control_log.waiting_commands(place.folder))
        control_log.take_commands(place.folder, lambda one: (f"did {one}", False))

        wait_for(lambda: "did pause all" in typed(url).output)
    assert not [name for name in remote.Bucket(url).list_objects() if name.startswith("control/")]

    assert "the next `run` starts with resume all" in typed(url, "resume").output
    with remote.open_location(url, str) as place:
        assert len(control_log.waiting_commands(place.folder)) == 1, (
            "an attempt finds them before it looks what is pending"
        )
