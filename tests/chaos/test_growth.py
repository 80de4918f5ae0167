"""The soak's judgement of growth: a leak is named, a peak and a warm-up are none."""

from __future__ import annotations

import random

import pytest

from tests.chaos.growth import BOUNDS, INTERVAL_S, Life, table


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
        (lambda at: 300.0 + 200 * at / 3600, False),
        (lambda at: 300.0 + 20 * at / 3600, True),
        (lambda at: min(300.0, at), True),
        (lambda at: 300.0 + 500 * (2000 < at < 2300), True),
    ],
    ids=["leaks", "below the bound", "warms up", "one peak"],
)
def test_only_a_leak_is_called_growth(memory, flat):
    lines, actual = table([life(memory)])

    assert actual is flat and len(lines) == len(BOUNDS)
    assert sum("GROWS" in line for line in lines) == (not flat)
