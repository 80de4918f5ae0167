"""The soak's judgement of growth: a leak is named, a peak and a warm-up are none, and the probes see a real process."""

from __future__ import annotations

import os
import random
import threading

import pytest

from tests.chaos.growth import BOUNDS, INTERVAL_S, Life, read_process, start_ticks, table


def life(memory) -> Life:
    """An hour of a process whose memory is a function of the seconds; 40 handles, now and then one more."""
    process, chance = Life("driver"), random.Random("growth")
    for number in range(int(3600 / INTERVAL_S)):
        process.seconds.append(number * INTERVAL_S)
        process.measured["MiB"].append(memory(number * INTERVAL_S) + chance.gauss(0, 5))
        process.measured["handles"].append(40 + chance.choice([0, 0, 0, 1]))
        process.measured["threads"].append(12.0)
    return process


@pytest.mark.parametrize(
    ("memory", "flat"),
    [
        (lambda at: 300.0, True),
        (lambda at: 300.0 + 200 * at / 3600, False),
        (lambda at: 300.0 + 20 * at / 3600, True),
        (lambda at: 300.0 - 200 * at / 3600, True),
        (lambda at: min(300.0, at), True),
        (lambda at: 300.0 + 500 * (2000 < at < 2300), True),
    ],
    ids=["flat", "leaks", "below the bound", "shrinks", "warms up", "one peak"],
)
def test_only_a_leak_is_called_growth(memory, flat):
    lines, actual = table([life(memory)])

    assert actual is flat and len(lines) == len(BOUNDS)
    assert sum("GROWS" in line for line in lines) == (not flat)


def test_probes_read_a_real_process(tmp_path):
    before = read_process(os.getpid())
    open_files = [(tmp_path / str(number)).open("w") for number in range(20)]
    waiting = threading.Event()
    threads = [threading.Thread(target=waiting.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    room = bytearray(os.urandom(1 << 20) * 64)
    after = read_process(os.getpid())
    waiting.set()
    for thread in threads:
        thread.join()
    for file in open_files:
        file.close()

    assert before and after and after["handles"] - before["handles"] == 20 and len(room) == 64 << 20
    assert after["threads"] - before["threads"] == 3
    assert 60 < after["MiB"] - before["MiB"] < 140
    assert read_process(2**30) is None and start_ticks(2**30) == "" != start_ticks(os.getpid()) == start_ticks(
        os.getpid()
    )
    assert int(start_ticks(os.getpid())) >= int(start_ticks(os.getppid()))
