"""The forecast of a precision rule: as many samples as the real interval needs for simulated answers."""

import numpy as np
import pytest

from orchestrator.precision.stop_forecast import forecast_stops
from orchestrator.precision.stopping import LOOK, bounds
from sweeps.load import build
from sweeps.sections import Precision


def cells(conditions=("zero-shot",), scenarios=("ROD", "QD"), models=("uniform",)):
    table = {"name": "s", "data": "d", "models": models, "scenarios": scenarios, "conditions": conditions}
    return list(build({k: v if isinstance(v, str) else list(v) for k, v in table.items()}, "test.toml").cells())


def first_narrow_look(size, share, half_width):
    """The first look at which the interval of answers in this drawn order is narrow, look by look."""
    answers = np.random.default_rng(0).permutation((np.arange(size) < round(share * size)).astype(float))
    for rounds in range(LOOK, size, LOOK):
        low, high = bounds([answers], [size], rounds, half_width / 100)
        if high - low <= 2 * half_width / 100:
            return rounds
    return size


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("half_width", [3.0, 10.0, 25.0])
def test_a_cell_plays_until_its_interval_is_narrow(share, half_width):
    sizes = [400, 95]
    rule = Precision(half_width=half_width, per="cell")

    assert forecast_stops(rule, cells(), sizes, share) == [first_narrow_look(n, share, half_width) for n in sizes]


def test_certain_answers_and_wide_intervals_need_fewer_samples():
    def stop(half_width, share, **more):
        return forecast_stops(Precision(half_width=half_width, **more), cells(), [500, 500], share)[0]

    assert stop(5.0, 0.0) < stop(5.0, 0.2) <= stop(5.0, 0.5) and stop(10.0, 0.5) < stop(5.0, 0.5)
    assert stop(5.0, 0.5) < stop(5.0, 0.5, per="cell"), "an average over two scenarios is narrower than each"
