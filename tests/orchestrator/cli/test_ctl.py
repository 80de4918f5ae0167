"""``ctl`` on the command line: one sentence each, in a folder and in a bucket; sending a command needs no Ray."""

import json

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.storage import control_log, lock
from tests.orchestrator.report import runs


@pytest.fixture
def folder(tmp_path, demo_data):
    """A run folder of one model and condition, of which only one scenario is stored."""
    path = tmp_path / "run"
    runs.play_sweep(path, runs.sweep(demo_data, ["uniform"], ["hint"]))
    return path


def run_ctl(*words: object):
    done = CliRunner().invoke(app, ["ctl", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_command_without_driver_is_queued_and_reported(folder):
    done = run_ctl(folder, "cancel", "uniform/ROD")

    assert done.exit_code == 0
    assert done.output == f"{folder} is not running; the next `run` takes the command\n"
    (name,) = control_log.waiting_commands(folder)
    assert json.loads((folder / "control" / name).read_text())["verb"] == "cancel"
    assert run_ctl(folder).output.startswith("1 command waiting")


@pytest.mark.parametrize("refused", [False, True])
def test_drivers_answer_is_printed(folder, monkeypatch, refused):
    """A driver that takes each command as soon as it is sent."""
    real = control_log.send_command

    def send_and_take(location, sent):
        name = real(location, sent)
        control_log.take_commands(location, lambda command: ("6 cells are \x1b[31mpaused", refused))
        return name

    monkeypatch.setattr(control_log, "send_command", send_and_take)
    with lock.hold(folder):
        done = run_ctl(folder, "pause")

    assert "\x1b" not in done.output
    assert done.exit_code == (2 if refused else 0)
    assert ("pause is refused: 6 cells are" if refused else "6 cells are") in done.output
    assert "6 cells are" in run_ctl(folder).output
    (entry,) = json.loads(run_ctl(folder, "--json").stdout)
    assert (entry["command"]["verb"], entry["refused"]) == ("pause", refused)


@pytest.mark.parametrize(
    "words, why",
    [
        (["frob"], "`ctl DIR frob ` is no command; type pause, cancel, drain,"),
        (["drain"], "is no command; type"),
        (["drain", "n1"], "so it has no nodes to drain"),
        (["set", "cluster.gpus=4"], "`ctl set` is gone; type run SWEEP --update"),
    ],
)
def test_impossible_command_is_one_sentence(folder, words, why):
    done = run_ctl(folder, *words)

    assert done.exit_code == 2 and why in done.output and done.output.count("\n") == 1
    assert not control_log.waiting_commands(folder)


def test_a_bucket_is_refused_in_one_sentence():
    done = run_ctl("s3://bucket/run", "pause")

    assert done.exit_code == 2 and "is a bucket; ctl needs a run folder on a disk" in done.output
