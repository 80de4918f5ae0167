"""``report --open`` hands the page that it has written to the browser of this machine."""

import os
import time

import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return the file into which the desktop's opener writes what it is to open."""
    opener, log = tmp_path / "bin" / "xdg-open", tmp_path / "opened"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" > {log}\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{opener.parent}{os.pathsep}{os.environ['PATH']}")
    return log


def test_page_that_was_written_is_opened_and_nothing_without_one(demo_data, tmp_path, opened):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["oracle", "uniform"], ["zero-shot"], scenarios=["QD"]))
    command = ["report", str(folder), "--leaderboard", "--output", str(tmp_path / "page.html"), "--open"]

    assert CliRunner().invoke(app, [*command, "--json"]).exit_code == 0
    assert CliRunner().invoke(app, ["report", str(folder), "--brief", "--open"]).exit_code == 0
    assert not opened.exists() and not (tmp_path / "page.html").exists()

    assert CliRunner().invoke(app, command).exit_code == 0
    deadline = time.monotonic() + 10
    while not opened.exists() or not opened.read_text():
        assert time.monotonic() < deadline, "the opener was not called"
        time.sleep(0.05)
    assert opened.read_text().strip() == str(tmp_path / "page.html") and (tmp_path / "page.html").stat().st_size
