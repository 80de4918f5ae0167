"""Settings and cells of commands to a running sweep: bounds, refusals as whole sentences, log lines of nodes."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.execution.live_control import CommandRefused, check_command, find_cells, parse_setting
from orchestrator.execution.worker_logs import log_held, log_nodes
from orchestrator.scheduling.nodes import Node
from orchestrator.storage import control_log
from sweeps.load import build
from sweeps.spec import Sweep

CELLS = ("one/ROD/hint", "one/QD/hint", "two/ROD/hint")


def sweep(**more: Any) -> Sweep:
    models = [
        {"name": "one", "source": "org/one", "backend": "vllm", "gpus": 2},
        {"name": "two", "source": "org/two", "backend": "vllm", "gpus": 0.5},
    ]
    table = {
        "name": "s",
        "data": "d",
        "scenarios": ["ROD"],
        "conditions": ["hint"],
        "models": ["one", "two", "uniform"],
    }
    return build({**table, "model": models, **more}, "a test")


def plan() -> Any:
    return SimpleNamespace(
        cells=[SimpleNamespace(key=key, model=SimpleNamespace(name=key.partition("/")[0])) for key in CELLS]
    )


def setting(target: str, value: str, **more: Any) -> int | str | None:
    try:
        return parse_setting(sweep(**more), control_log.make_command("set", target, value))
    except CommandRefused as problem:
        return str(problem)


@pytest.mark.parametrize(
    ("target", "value", "result"),
    [
        ("cluster.gpus", "all", None), ("cluster.judge_gpus", "all", None), ("cluster.gpus", "2", 2),
        ("cluster.gpus", "4096", 4096), ("cluster.judge_gpus", "1", 1), ("one.in_flight", "1", 1),
        ("two.in_flight", "4096", 4096), ("two.in_flight", "000000007", 7),
        ("cluster.gpus", "1", "cluster.gpus=1 is less than the 2 GPUs that one worker needs"),
        ("cluster.gpus", "0", "cluster.gpus=0: type a whole number from 1 to 4096, or all"),
        ("cluster.gpus", "4097", "cluster.gpus=4097: type a whole number from 1 to 4096, or all"),
        ("one.in_flight", "0", "one.in_flight=0: type a whole number from 1 to 4096"),
        ("one.in_flight", "all", "one.in_flight=all: type a whole number from 1 to 4096"),
        ("one.in_flight", "0000000007", "one.in_flight=0000000007: type a whole number from 1 to 4096"),
        ("one.in_flight", "²", "one.in_flight=²: type a whole number from 1 to 4096"),
        ("one.in_flight", "x" * 30, f"one.in_flight={'x' * 20}: type a whole number from 1 to 4096"),
        ("uniform.in_flight", "2", "uniform.in_flight cannot be set while a sweep runs; type one of cluster.gpus,"
         " cluster.judge_gpus, one.in_flight, two.in_flight"),
        ("one.gpus", "2", "one.gpus cannot be set while a sweep runs; type one of cluster.gpus,"
         " cluster.judge_gpus, one.in_flight, two.in_flight"),
        ("cluster.workers", "all", "cluster.workers cannot be set while a sweep runs; type one of cluster.gpus,"
         " cluster.judge_gpus, one.in_flight, two.in_flight"),
    ],
)  # fmt: skip
def test_a_setting_is_a_number_within_bounds_or_a_sentence(target: str, value: str, result: int | str | None) -> None:
    assert setting(target, value) == result


def test_a_judge_needs_its_own_gpus_only() -> None:
    judge = {
        "protocol": ["oeg"], "judge": {"model": "j"},
        "model": [{"name": "one", "source": "org/one", "backend": "vllm", "gpus": 4},
                  {"name": "j", "source": "org/j", "backend": "vllm", "gpus": 2}], "models": ["one"],
    }  # fmt: skip

    assert setting("cluster.judge_gpus", "2", **judge) == 2
    assert setting("cluster.judge_gpus", "1", **judge) == (
        "cluster.judge_gpus=1 is less than the 2 GPUs that one worker needs"
    )
    assert setting("cluster.gpus", "3", **judge) == "cluster.gpus=3 is less than the 4 GPUs that one worker needs"


@pytest.mark.parametrize(
    ("verb", "target", "cells"),
    [
        ("pause", "all", list(CELLS)), ("cancel", "one", list(CELLS[:2])), ("requeue", "two/ROD/hint", [CELLS[2]]),
        ("pause", "judge", []), ("resume", "judge", []),
        ("cancel", "judge", "judge matches no cell of this sweep; its models are one, two"),
        ("pause", "three", "three matches no cell of this sweep; its models are one, two"),
    ],
)  # fmt: skip
def test_a_target_matches_cells_or_is_refused(verb: str, target: str, cells: list[str] | str) -> None:
    command = control_log.make_command(verb, target)
    if isinstance(cells, list):
        assert find_cells(plan(), command) == cells
        check_command(sweep(), plan(), command)
        return
    for check in (lambda: find_cells(plan(), command), lambda: check_command(sweep(), plan(), command)):
        with pytest.raises(CommandRefused) as problem:
            check()
        assert str(problem.value) == cells


def test_commands_that_need_no_cell_are_checked_by_what_they_set() -> None:
    for verb in ("drain", "undrain"):
        check_command(sweep(), plan(), control_log.make_command(verb, "any host"))
    with pytest.raises(CommandRefused, match="cannot be set while"):
        check_command(sweep(), plan(), control_log.make_command("set", "x.in_flight", "2"))


def test_nodes_that_come_go_or_are_held_have_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orchestrator")
    first, second = Node("a" * 20, 8), Node("b" * 20, 4, held=2)
    log_nodes([first], [first], ())
    log_held([first])
    assert caplog.messages == []
    log_nodes([first], [second], ["c" * 20])

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", f"node {'a' * 12} with 8 GPUs is lost"),
        ("INFO", f"node {'b' * 12} with 4 GPUs has joined"),
        ("WARNING", f"Ray drains node {'c' * 12}: its workers begin no more episodes"),
        ("INFO", "2 of 4 GPUs are held by others"),
    ]
    caplog.clear()
    log_held([second, first])
    log_held([first], always=True)
    assert caplog.messages == ["2 of 12 GPUs are held by others", "0 of 8 GPUs are held by others"]
