"""Held time of replicas: attempts add up by group, GPUs weigh it, and a file that says nonsense counts as none."""

import pytest

from orchestrator.storage import checksums
from orchestrator.storage.replica_time import (
    FILE,
    ReplicaTime,
    as_rows,
    describe,
    held_metrics,
    read_attempts,
    time_by_group,
    write_attempts,
)


def test_attempts_add_up_by_group(tmp_path):
    first = ReplicaTime(gpus=1, waiting=1, loading=2, playing=3, judging=4, idle=5, lost=6)
    write_attempts(
        tmp_path, {"a1": {"m": first}, "a2": {"m": ReplicaTime(gpus=4, playing=10.00049), "n": ReplicaTime()}}
    )

    assert time_by_group(tmp_path) == {
        "m": ReplicaTime(gpus=4, waiting=1, loading=2, playing=13, judging=4, idle=5, lost=6),
        "n": ReplicaTime(),
    }
    assert first.held == 2 + 3 + 4 + 5 + 6
    assert as_rows(tmp_path)[0] == {
        "group": "m", "gpus": 4, "waiting": 1, "loading": 2, "playing": 13, "judging": 4, "idle": 5, "lost": 6,
    }  # fmt: skip


def test_metrics_are_of_held_time(tmp_path):
    assert held_metrics(tmp_path) == {} and list(describe(tmp_path)) == []
    write_attempts(tmp_path, {"a": {"m": ReplicaTime(gpus=2, playing=2700, lost=900, waiting=7200)}})
    assert held_metrics(tmp_path) == {
        "gpu_hours/waiting": 4, "gpu_hours/loading": 0, "gpu_hours/playing": 1.5, "gpu_hours/judging": 0,
        "gpu_hours/idle": 0, "gpu_hours/lost": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [b"[]", b'{"a": {"m": {"playing": -1}}}', b'{"a": {"m": {"gpus": 1e13}}}', b'{"a": {"m": {"idle": NaN}}}'],
)
def test_a_file_with_impossible_times_counts_as_none(tmp_path, content):
    checksums.write(tmp_path / FILE, content)

    assert read_attempts(tmp_path) == {}
