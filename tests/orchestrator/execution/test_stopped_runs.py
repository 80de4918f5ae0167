"""A real run that is killed, loses its terminal or its Ray, or is stopped by Ctrl-C many times, keeps results and goes on."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from orchestrator.execution import stop_signals
from orchestrator.storage.episode_store import episodes
from tests.actors.service import completion, service
from tests.conftest import ROOT
from tests.orchestrator.execution.test_attempt import assert_stored_once

pytestmark = pytest.mark.slow
SWEEP = """# A test.
data = "{data}"
conditions = ["zero-shot"]
tracking = {{ uri = "none" }}
[[model]]
name = "served"
source = "served"
in_flight = 4
endpoint = {{ base_url = "{url}", key_env = "" }}
"""
KEPT = r"stopped: (\d+) new episodes are stored; run the same command to continue"


def wait_for_requests(server, process, requests: int = 20) -> None:
    """Wait for so many requests more; an episode leaves its worker within a second of its end."""
    before, deadline = len(server.bodies), time.monotonic() + 120
    while len(server.bodies) < before + requests:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def start_on_terminal(cli, *args):
    """The command in a session of its own on a new terminal; the terminal's other end."""
    ours, theirs = os.openpty()

    def session() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    command = [sys.executable, "-m", "orchestrator", *map(str, args)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=cli.environment, cwd=ROOT, preexec_fn=session
    )
    os.close(theirs)
    return process, ours


def restore_signals() -> None:
    """These tests may themselves run in the background of a shell or under nohup, where signals are ignored."""
    for number in stop_signals.SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def log_of(out, attempt):
    return (out / f"logs/attempt-{attempt:04d}/driver.log").read_text()


def test_run_stopped_in_each_way_resumes_and_completes(cli, demo_data, tmp_path):
    file, out = tmp_path / "s.toml", tmp_path / "run"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with service(lambda number, body: completion("A")) as server:
        server.delay = 0.2
        file.write_text(SWEEP.format(data=demo_data, url=server.url))
        command = ("run", file, "--output", out)

        process, terminal = start_on_terminal(cli, *command)
        wait_for_requests(server, process, 30)
        os.close(terminal)  # the kernel sends SIGHUP
        assert process.wait(60) == 130
        signal.signal(signal.SIGHUP, before)
        (stored_count,) = re.findall(KEPT, log_of(out, 1))
        assert int(stored_count) == episodes(out).collect().height > 0 and "Traceback" not in log_of(out, 1)

        process = cli.start(*command, preexec_fn=restore_signals)
        wait_for_requests(server, process)
        while process.poll() is None:  # through all that Ray does at exit
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)  # signals of one kind that come at once are one
        _, output = process.communicate(timeout=60)
        assert process.returncode == 130 and "Traceback" not in output, output
        assert re.search(KEPT, output) or "stopped; stored results are kept" in output, output

        process = cli.start(*command)
        wait_for_requests(server, process)
        process.kill()
        process.communicate()
        assert episodes(out).collect().height < 70, "the kill must fall into the middle for this test to mean anything"
        server.delay = 0.0
        done = cli.call(*command)
        undisturbed = cli.call("run", file, "--output", tmp_path / "whole")
    assert done.returncode == undisturbed.returncode == 0, done.stderr
    assert_stored_once(out, 70)
    assert (out / "results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
