"""What an attempt leaves behind: one folder, bounded, without secrets, with the last words of whoever died."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from actors.node.process_output import WorkerAddress
from orchestrator.execution import worker_logs
from orchestrator.storage.episode_store import episodes
from tests.conftest import ENVIRONMENT, ROOT, Cli


@pytest.mark.parametrize(
    ("before", "name"),
    [((), "0001"), (("0009", "0010", "x1", "1x"), "0011"), (("1999", "0002"), "2000"), (("9999",), "10000")],
)
def test_an_attempt_has_the_number_after_the_highest(tmp_path, before, name):
    for number in before:
        (tmp_path / "logs" / f"attempt-{number}").mkdir(parents=True)
    attempt_log = worker_logs.AttemptLog(tmp_path)
    assert attempt_log.name == f"logs/attempt-{name}" and attempt_log.folder == tmp_path / attempt_log.name
    assert [folder.stat().st_mode & 0o777 for folder in (attempt_log.folder,)] == [0o700]


def test_a_disk_that_takes_no_log_costs_the_log_alone(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    with worker_logs.open_attempt_log(tmp_path):
        worker_logs.log.warning("said")
    assert (tmp_path / "logs").read_text() == "in the way"


def test_a_lost_worker_leaves_its_last_lines_or_where_they_are(tmp_path, monkeypatch):
    async def read(node, paths):
        if node == "gone":
            raise ConnectionError
        return f":job_id:01\nfrom {node}: {paths[0]}\n"

    monkeypatch.setattr(worker_logs, "read_output_on", read)
    with worker_logs.open_attempt_log(tmp_path) as attempt_log:
        for slot, node in ((2, "far"), (3, "gone")):
            asyncio.run(worker_logs.log_last_lines("m", slot, WorkerAddress("host", 1, node, "", ("/w.out",))))
    text = (attempt_log.folder / "driver.log").read_text()

    assert "worker 2 of m, last output: from far: /w.out\n" in text
    assert "the output of worker 3 of m stays on host (ConnectionError)\n" in text


# -- real workers -----------------------------------------------------------------------------------------------------
def long_sweep(path, data):
    entry = '[[model]]\nname = "u{}"\nsource = "builtin:uniform"\nbackend = "builtin"\n'
    models = "".join(entry.format(number) for number in range(300))
    path.write_text(f'# A test.\ndata = "{data}"\nconditions = ["zero-shot"]\ntracking = {{ uri = "none" }}\n{models}')
    return path


def first_worker(driver_log: Path, seconds=90) -> tuple[str, int]:
    """Slot and pid of the first worker that the driver's log calls ready."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for line in driver_log.read_text().splitlines() if driver_log.exists() else ():
            if "is ready (process" in line:
                return line.split("worker ")[1].split()[0], int(line.split("(process ")[1].split()[0])
        time.sleep(0.05)
    raise AssertionError("no worker was ready in time")


def crash_first_worker(cli, path, out):
    """Run the sweep and crash its first worker; return the driver's log and the worker's slot."""
    process = cli.start("run", path, "--output", out)
    folder = out / "logs/attempt-0001"
    slot, pid = first_worker(folder / "driver.log")
    os.kill(pid, signal.SIGSEGV)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    stored = episodes(out).collect()
    assert stored.height == stored["key"].n_unique() == 300 * 70
    return (folder / "driver.log").read_text(), slot


@pytest.fixture(scope="module")
def two_nodes():
    """A head without CPUs, where the driver is, and a node with two, where all workers are."""
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.mark.slow
def test_a_worker_that_crashes_on_another_node_leaves_its_last_words(two_nodes, demo_data, tmp_path):
    cli = Cli({**os.environ, "RAY_ADDRESS": two_nodes, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"})
    driver, slot = crash_first_worker(cli, long_sweep(tmp_path / "x.toml", demo_data), tmp_path / "run")

    assert f"worker {slot} of builtin is lost" in driver and f"worker {slot} of builtin, last output: " in driver
    assert "SIGSEGV" in driver or "Segmentation fault" in driver
