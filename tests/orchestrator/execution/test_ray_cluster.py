"""A cluster that cannot be reached, or does not start, is tried again and then one sentence."""

import socket
import time
from types import SimpleNamespace

import pytest
import ray

from orchestrator.execution import ray_cluster
from orchestrator.execution.ray_cluster import CONNECT_PAUSES_S, connect
from sweeps.load import SweepError


@pytest.fixture
def pauses(monkeypatch):
    slept: list[float] = []
    own_time = SimpleNamespace(**{**vars(time), "sleep": slept.append})  # threads of other tests may sleep, too
    monkeypatch.setattr(ray_cluster, "time", own_time)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    return slept


def test_a_port_where_nobody_listens_is_tried_three_times(monkeypatch, pauses):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(
        SweepError, match=r"RAY_ADDRESS=127\.0\.0\.1:\d+ \(.*refused\); start it with `ray start --head`"
    ):
        connect()
    assert pauses == list(CONNECT_PAUSES_S)


@pytest.mark.parametrize("address", ["nowhere.invalid:6379", "nonsense", "x" * 5000, "[::1]:1"])
def test_invalid_address_is_one_sentence(monkeypatch, pauses, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(SweepError) as raised:
        connect()
    assert "\n" not in str(raised.value) and "ray start --head" in str(raised.value)
