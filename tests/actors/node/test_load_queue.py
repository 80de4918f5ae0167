"""Loaders take turns where memory is short; none waits for ever, and a dead one delays nobody. Real processes, real locks."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
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


class Told(Exception):
    """What a loader reports, in a test that waits for nothing else."""


@pytest.fixture
def place(tmp_path):
    return tmp_path / "turns"


def loader(place, name, free=64, size="10", seconds=0.0, timeout=60, alone=False):
    """A process that loads for so many seconds; sizes in GiB, ``None`` is unknown."""
    arguments = map(str, (place, name, free, size, seconds, timeout, alone))
    return subprocess.Popen(
        [sys.executable, "-c", LOADER, *arguments],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def spans(processes):
    """(begin, end) of each loading, in the order in which they began."""
    found = []
    for process in processes:
        said = process.communicate(timeout=90)[0].splitlines()
        times = [float(line.split()[1]) for line in said if line.startswith(("loading ", "loaded "))]
        assert process.returncode == 0 and len(times) == 2, said
        found.append(tuple(times))
    return sorted(found)


def left(place):
    return sorted(path.name for path in place.iterdir())


def overlapping(found):
    return sum(a[1] > b[0] for a, b in pairwise(found))


def test_what_does_not_fit_side_by_side_loads_one_after_the_other(place):
    found = spans([loader(place, f"m{n}", free=20, seconds=0.3) for n in range(4)])

    assert overlapping(found) == 0
    assert left(place) == ["queue.lock"], "the last one leaves no ticket"


def test_what_fits_loads_side_by_side(place):
    first = [loader(place, f"m{n}", free=64, seconds=3) for n in range(3)]

    assert overlapping(spans(first)) == 2


def test_an_unknown_size_loads_alone(place):
    found = spans([loader(place, f"m{n}", free=640, size=None, seconds=0.3) for n in range(3)])

    assert overlapping(found) == 0


def test_engines_with_several_gpus_start_one_at_a_time_and_nothing_beside_them(place):
    """However much memory there is: their processes meet at a port."""
    wide = [loader(place, f"wide{n}", free=640, seconds=0.3, alone=True) for n in range(2)]
    narrow = [loader(place, f"narrow{n}", free=640, seconds=0.3) for n in range(2)]
    found = {name: spans([one])[0] for name, one in zip(["w0", "w1", "n0", "n1"], [*wide, *narrow], strict=True)}

    for name in ("w0", "w1"):
        began, ended = found.pop(name)
        assert all(ended <= other[0] or other[1] <= began for other in found.values())


@pytest.mark.parametrize(
    ("first_alone", "second_alone", "said"),
    [
        (True, False, "second waits for its turn to load: first is loading and starts alone"),
        (False, True, "second waits for its turn to load: first is loading, and second starts alone"),
    ],
)
def test_who_waits_for_an_engine_with_several_gpus_is_told(place, first_alone, second_alone, said):
    first = held(place, alone=first_alone)
    second = loader(place, "second", free=640, alone=second_alone)
    assert second.stdout.readline().strip() == said
    ended(first)
    assert second.communicate(timeout=60)[0] and second.returncode == 0


@pytest.mark.parametrize(("gpus", "waits"), [(2, "wide starts alone"), (1, "sizes are not known")])
def test_the_loader_asks_to_be_alone_for_several_gpus(tmp_path, monkeypatch, gpus, waits):
    """The turns of a node lie in its folder for temporary files."""

    def report(line):
        raise Told(line)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(engine_loader, "check_gpus", lambda *asked: [])
    model = ModelSpec(name="wide", source="no/such", gpus=gpus)
    with LoadQueue().turn("first", GIB, print), pytest.raises(Told, match=waits):
        engine_loader.load_engine(model, tmp_path, ["0", "1"][:gpus], report)


def held(place, alone=False):
    """A process that loads until it is ended."""
    process = loader(place, "first", seconds=600, alone=alone)
    assert process.stdout.readline().startswith("loading")
    return process


def ended(process):
    process.kill()
    process.communicate()


def test_a_loader_that_dies_lets_the_next_one_in_at_once(place):
    first = held(place)
    second = loader(place, "second", free=1, timeout=600)
    assert (
        "second waits for its turn to load: first is loading, together they take 24.0 GiB" in second.stdout.readline()
    )
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    said = second.communicate(timeout=60)[0]

    assert second.returncode == 0 and "second loads after" in said
    assert left(place) == ["queue.lock"]


def test_nobody_waits_for_ever(place):
    first = held(place)
    try:
        said = loader(place, "second", free=1, timeout=1).communicate(timeout=60)[0]
        assert "second loads after 1 s of waiting, although first is loading" in said and "loaded" in said
    finally:
        ended(first)


def test_turns_are_served_in_the_order_drawn(place):
    """A small one does not overtake the large one that waits before it."""
    first = held(place)
    try:
        large = loader(place, "large", free=40, size=40, seconds=1)
        assert "large waits" in large.stdout.readline()
        small = loader(place, "small", free=1000, size=1)
        assert "small waits for its turn to load: large is before it" in small.stdout.readline()
    finally:
        ended(first)
    (large_began, _), (small_began, _) = spans([large]) + spans([small])
    assert large_began < small_began


def test_an_error_while_loading_gives_the_turn_back(place):
    with pytest.raises(ImportError), LoadQueue(place).turn("m", 1, print):
        raise ImportError("no such engine")
    assert left(place) == ["queue.lock"]


def test_a_folder_that_cannot_be_used_costs_the_turn_and_not_the_load(tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    with LoadQueue(tmp_path / "file/turns").turn("m", 1, said.append):
        said.append("loaded")

    assert said[0].startswith("m loads without waiting for others") and said[1] == "loaded"


def test_a_folder_that_vanishes_meanwhile_stops_nobody(place):
    first = held(place)
    said = []

    def second():
        with LoadQueue(place, lambda: 0).turn("second", GIB, said.append):
            said.append("loaded")

    thread = Thread(target=second)
    thread.start()
    while not said:
        time.sleep(0.05)
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    thread.join(timeout=60)
    ended(first)
    assert said[-1] == "loaded"


def test_a_process_that_was_stopped_while_it_read_the_tickets_costs_the_turn_and_not_the_load(place, monkeypatch):
    monkeypatch.setattr(load_queue, "MUTEX_TIMEOUT_S", 0.2)
    place.mkdir()
    said = []
    with FileLock(place / "queue.lock"), LoadQueue(place).turn("m", 1, said.append):
        said.append("loaded")

    assert said[0].startswith("m loads without waiting for others") and said[1] == "loaded"


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_ticket_that_cannot_be_read_counts_as_loading_anything(place, content):
    said = []
    with LoadQueue(place).turn("first", 1, said.append):
        next(place.glob("*.json")).write_text(content)
        with LoadQueue(place).turn("second", 1, said.append, timeout=0):
            said.append("loaded")

    assert said == [
        "second loads after 0 s of waiting, although another model is loading, and sizes are not known", "loaded",
    ]  # fmt: skip


def test_a_margin_is_counted_for_each_loader(place):
    with LoadQueue(place).turn("first", 10 * GIB, print):
        ticket = next(place.glob("*.ticket"))
        assert json.loads(ticket.with_suffix(".json").read_text())["loading"] is True
        tight, wide = 20 * GIB + 2 * MEMORY_MARGIN_BYTES - 1, 20 * GIB + 2 * MEMORY_MARGIN_BYTES
        said = []
        with LoadQueue(place, lambda: tight).turn("second", 10 * GIB, said.append, timeout=0):
            assert "although first is loading" in said[-1]
        with LoadQueue(place, lambda: wide).turn("third", 10 * GIB, said.append, timeout=0):
            assert len(said) == 1


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


def test_free_memory_of_this_machine():
    assert 0 < free_memory() < 2**50


def test_weights_are_measured_where_they_lie_and_reckoned_where_not(tmp_path, monkeypatch):
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
