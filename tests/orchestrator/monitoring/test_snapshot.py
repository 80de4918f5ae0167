"""Snapshots of a running sweep: counts become rates and an ETA that any terminal can read."""

import json
import os
import re
import signal
import time
from collections import deque
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.monitoring import render, snapshot
from orchestrator.monitoring.render import format_duration, lines, status_tables, table
from orchestrator.monitoring.snapshot import GroupRow, RateMeter, Snapshot, describe_silence
from orchestrator.report.tables.formats import rich_group
from orchestrator.scheduling.commands import Demand, Lease, Start
from orchestrator.scheduling.nodes import Place
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot

WORK = {"qwen": range(1000), "tiny": range(1000, 1400), "judge:q": range(5000, 5010)}
DEMANDS = {"qwen": Demand(0, 2, concurrency=64), "tiny": Demand(0, 1), "judge:q": Demand(0, 1, pool="judges")}


def start_schedule(gpus=8):
    """Return a schedule whose first qwen replica is ready, its slot, and the commands that follow."""
    schedule = Scheduler({name: list(queue) for name, queue in WORK.items()}, DEMANDS, 8, gpus)
    commands = schedule.on_begin(0.0)
    slot = next(command.slot for command in commands if isinstance(command, Start) and command.group == "qwen")
    return schedule, slot, schedule.on_ready(slot, 10.0)


def take_snapshot(schedule, meter, now, stored=None, errors=None):
    return meter.snapshot(schedule, stored or {}, errors or {}, now, {})


def rows_by_name(snapshot):
    return {row.name: row for row in snapshot.rows}


def test_replicas_devices_and_queues_match_schedule():
    schedule, _, commands = start_schedule()
    leased = sum(len(command.ordinals) for command in commands if isinstance(command, Lease))
    meter = RateMeter({"qwen": 1200, "tiny": 400, "gone": 7}, {"qwen": 200, "gone": 7})
    rows = rows_by_name(take_snapshot(schedule, meter, 10.0))

    qwen = rows["qwen"]
    assert (qwen.ready, qwen.gpus) == (1, 2 * (1 + qwen.starting)) and qwen.in_flight == leased > 0
    assert (qwen.done, qwen.planned, qwen.waiting) == (200, 1200, 1000 - leased)
    assert (rows["tiny"].ready, rows["tiny"].waiting) == (0, 400) and rows["tiny"].seconds_left is None
    assert rows["gone"] == GroupRow("gone", done=7, planned=7, seconds_left=0.0)
    assert rows["judge:q"].judges and rows["judge:q"].planned == 10


def test_judge_answers_do_not_count_as_episodes():
    schedule, _, _ = start_schedule()

    snapshot = take_snapshot(schedule, RateMeter({"qwen": 1000, "tiny": 400}, {}), 10.0)
    assert (snapshot.done, snapshot.planned, snapshot.gpus) == (0, 1400, 8)


def test_rates_are_those_of_the_last_minute():
    schedule, _, _ = start_schedule()
    meter = RateMeter({"qwen": 1000, "tiny": 400}, {"qwen": 100}, {"qwen": 2})
    for second in range(201):
        done = min(second, 100) + max(0, second - 100) * 3
        snapshot = take_snapshot(schedule, meter, float(second), {"qwen": done}, {"qwen": 1})

    row = rows_by_name(snapshot)["qwen"]
    assert row.rate == pytest.approx(3.0) and row.done == 100 + 400 and row.errors == 3
    assert row.seconds_left == pytest.approx(500 / 3)


def test_no_eta_while_group_rate_is_unknown():
    schedule, _, _ = start_schedule()
    meter = RateMeter({"qwen": 1000, "tiny": 400}, {})
    take_snapshot(schedule, meter, 0.0)

    assert take_snapshot(schedule, meter, 10.0, {"qwen": 100}).seconds_left is None


def test_eta_respects_total_device_capacity():
    demands = {name: replace(demand, rate=0.5) for name, demand in DEMANDS.items()}
    schedule = Scheduler({name: list(queue) for name, queue in WORK.items()}, demands, 8, 8)
    schedule.on_begin(0.0)
    meter = RateMeter({"qwen": 1000, "tiny": 400}, {})
    take_snapshot(schedule, meter, 0.0)

    snapshot = take_snapshot(schedule, meter, 10.0, {"qwen": 990, "tiny": 390})
    assert snapshot.seconds_left == pytest.approx((2 * 1000 + 400 + 10) / 0.5 / 8)


def test_lost_group_has_reason_and_no_eta():
    schedule = Scheduler({"big": [1, 2]}, {"big": Demand(0, 16)}, 8, 8)
    schedule.on_begin(0.0)
    row = rows_by_name(take_snapshot(schedule, RateMeter({"big": 2}, {}), 1.0))["big"]

    assert (row.seconds_left, row.waiting) == (None, 0) and row.reason.startswith("big needs 16 GPUs")
    assert "lost" in render_text(table(Snapshot(1.0, 0, 2, 0, None, 8, (row,))))


# -- how it is shown --------------------------------------------------------------------------------------------------
QWEN = GroupRow("qwen", False, 2, 1, 3, 1200, 3360, 5.1, 1820, 340, 3, 424.0)
DONE = GroupRow("tiny", done=70, planned=70, seconds_left=0.0)
SNAPSHOT = Snapshot(1.0, 1270, 3430, 5.1, 424.0, 8, (DONE, QWEN))


def render_text(tables_and_lines, width=120):
    console = Console(width=width, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
    console.print(rich_group(*tables_and_lines))
    return console.export_text()


def test_table_shows_same_figures():
    printed_lines = [line for line in render_text(table(SNAPSHOT), 80).splitlines() if line.strip(" ─")]

    heads = ["model", "replicas", "GPUs", "episodes", "/s", "waiting", "playing", "errors", "left"]
    assert printed_lines[0].split() == heads
    cells = ["qwen", "2", "+1", "3", "1,200/3,360", "5.1", "1,820", "340", "3", "7", "min"]
    assert printed_lines[1].split() == cells, "those at work come first"
    assert printed_lines[2].split()[0] == "tiny" and printed_lines[2].split()[-1] == "done"
    assert printed_lines[3].strip() == lines(SNAPSHOT)[0]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (119, "119 s"), (424, "7 min"), (7200, "2 h 0 min"), (19_230, "5 h 20 min"), (273_600, "3 d 4 h")],
)
def test_a_duration_has_two_units(seconds, expected):
    assert format_duration(seconds) == expected


def test_without_a_driver_models_are_counted_from_their_cells():
    cells = [
        {"cell": "m/ROD/hint", "finished": 5, "planned": 10, "errors": 1},
        {"cell": "m/QD/hint", "finished": 10, "planned": 10, "errors": 0},
    ]
    text = render_text(status_tables({"running": None, "cells": cells}))

    assert "15/20" in text and "15 of 20 episodes (75%)" in text and "replicas" not in text and "/s" not in text


ENDLESS = {"at": 0, "done": 1, "planned": 2, "rate": 1, "seconds_left": 1e999, "gpus": 0}


@pytest.mark.parametrize("live", [None, [], {"rows": 3}, {"rows": [{"name": "m", "other": 1}]}, ENDLESS])
def test_unreadable_snapshot_is_ignored(live):
    assert snapshot.parse_snapshot(live) is None
    status = {"running": {"pid": 1, "host": "h"}, "live": live, "cells": []}
    assert len(status_tables(status)) == len(status_tables({**status, "live": None}))


def test_a_snapshot_survives_the_file(tmp_path):
    snapshot.write(tmp_path, SNAPSHOT)
    assert snapshot.parse_snapshot(json.loads((tmp_path / "live.json").read_text())) == SNAPSHOT
    snapshot.remove(tmp_path)
    snapshot.remove(tmp_path)
    snapshot.write(tmp_path / "nowhere", SNAPSHOT)
    assert not list(tmp_path.iterdir())


# -- a real run -------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.long
def test_status_from_another_terminal_shows_driver_progress(cli, demo_data, tmp_path):
    """Pause the workers, not the driver, so that there is time to look."""
    out = tmp_path / "run"
    entry = '[[model]]\nname = "u{}"\nsource = "builtin:uniform"\nbackend = "builtin"\n'
    path, models = tmp_path / "x.toml", "".join(map(entry.format, range(300)))
    path.write_text(
        f'# A test.\ndata = "{demo_data}"\nconditions = ["zero-shot"]\ntracking = {{ uri = "none" }}\n{models}'
    )
    process = cli.start("run", path, "--output", out)
    driver_log = out / "logs/attempt-0001/driver.log"
    deadline = time.monotonic() + 90
    while not driver_log.exists() or "is ready (process" not in driver_log.read_text():
        assert time.monotonic() < deadline, "no worker was ready in time"
        time.sleep(0.05)
    time.sleep(0.5)
    pids = [*map(int, re.findall(r"\(process (\d+)", driver_log.read_text()))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(snapshot.WRITE_INTERVAL_S + 2)
        json_status = cli.call("status", out, "--json")
        table_status = cli.call("status", out)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    process.communicate(timeout=240)
    (row,) = json.loads(json_status.stdout)["live"]["rows"]

    assert row["name"] == "builtin" and row["planned"] == 21_000
    assert row["ready"] + row["starting"] >= 1 and row["in_flight"] > 0 and row["done"] < 21_000
    assert "replicas" in table_status.stdout and f"reported by process {process.pid} on" in table_status.stdout
    assert process.returncode == 0 and not (out / "live.json").exists()
    assert "21,000 of 21,000 episodes (100%)" in cli.call("status", out).stdout


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0, "0/s"),
        (84 / 485, "10/min"),
        (0.004, "0.24/min"),
        (0.99, "59/min"),
        (1, "1/s"),
        (5.13, "5.1/s"),
        (1234, "1,234/s"),
    ],
)
def test_slow_rates_are_per_minute(rate, text):
    assert render.format_rate(rate) == text


def test_a_rate_of_zero_has_its_cause():
    group = WorkerGroup("m", Demand(), deque())
    waiting, loading = WorkerSlot(group, Place()), WorkerSlot(group, Place(), started_at=20.0, placed=True)
    silent = WorkerSlot(group, Place(), last_heard=15.0, placed=True, ready=True, leases={1: dict.fromkeys(range(14))})

    assert describe_silence([waiting], 60.0, "") == "waiting for a place in Ray, 60 s so far"
    assert describe_silence([loading], 60.0, "") == "loading, 40 s so far"
    assert describe_silence([silent, loading], 60.0, "") == "no episode for 45 s"
    assert describe_silence([silent], 60.0, "m refuses connections") == "m refuses connections, 14 episodes wait"
    assert describe_silence([], 60.0, "") == ""
