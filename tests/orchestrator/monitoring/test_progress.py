"""Progress of an attempt: when lines are printed, live.json is written and points are recorded, on a clock of the test."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest

from orchestrator.monitoring import progress
from orchestrator.monitoring.progress import Progress
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.progress_log import Point, stored_points

PLANNED = {"policies": 30, "m": 1000}


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    now.monotonic, now.time = (lambda: now.seconds), (lambda: 5e8 + now.seconds)
    monkeypatch.setattr(progress, "time", now)
    return now


def start(folder):
    schedule = Scheduler({"policies": range(30), "m": range(30, 1030)}, dict.fromkeys(PLANNED, Demand(1, 0)), 8, 0)
    return Progress(folder, PLANNED, {"policies": 10, "m": 200}, {"m": 4}), schedule


def test_lines_come_after_a_tenth_of_the_time_within_bounds(tmp_path, clock, capsys):
    display, schedule = start(tmp_path)
    printed = []
    with display:
        for second in range(2000):
            clock.seconds = 1000.0 + second
            display.show({"m": second // 4, "policies": 5}, {"m": 1}, schedule, {})
            if text := capsys.readouterr().err:
                printed.append((second, text))

    seconds = [second for second, _ in printed]
    assert seconds[:11] == [*range(10, 101, 10), 112], "at least ten seconds, then a tenth of the time"
    assert max(after - before for before, after in pairwise(seconds)) == 60
    assert printed[1][1].splitlines()[0].startswith("220 of 1,030 episodes (21%), ")


def test_live_file_is_written_every_five_seconds_and_removed(tmp_path, clock):
    display, schedule = start(tmp_path)
    schedule.groups["m"].reason = "killed"
    live, times = tmp_path / "live.json", []
    with display:
        for half in range(40):
            clock.seconds = 1000.0 + half / 2
            display.show({"m": 8}, {"m": 1}, schedule, {})
            if live.exists():
                times.append(half / 2)
                rows = {row["name"]: row for row in json.loads(live.read_text())["rows"]}
                live.unlink()
        live.write_text("{}")

    assert times == [0, 5, 10, 15]
    assert (rows["m"]["done"], rows["m"]["errors"], rows["m"]["reason"]) == (208, 5, "killed")
    assert (rows["policies"]["done"], rows["policies"]["planned"]) == (10, 30)
    assert not live.exists()


def test_new_totals_replace_the_old_ones(tmp_path, clock):
    display, schedule = start(tmp_path)
    with display:
        display.rate_meter.planned = {"policies": 500, "m": 250}
        display.show({}, {}, schedule, {})
        rows = json.loads((tmp_path / "live.json").read_text())["rows"]

    assert {row["name"]: row["planned"] for row in rows} == {"policies": 500, "m": 250}


def test_points_count_all_attempts_every_two_seconds_with_their_rate(tmp_path, clock):
    display, schedule = start(tmp_path)
    with display:
        for second in range(100):
            clock.seconds = 1000.0 + second
            display.show({"m": 3 * second}, {}, schedule, {})

    times = range(500_001_000_000, 500_001_100_000, 2000)
    expected = [Point(done=210 + 6 * number, at=at, episodes_per_second=3.0) for number, at in enumerate(times)]
    assert stored_points(tmp_path) == [expected[0].model_copy(update={"episodes_per_second": 0.0}), *expected[1:]]


def test_the_rate_is_that_of_the_last_minute(tmp_path, clock):
    display, schedule = start(tmp_path)
    with display:
        for second in range(131):
            clock.seconds = 1000.0 + second
            display.show({"m": 5 * min(second, 100) + 2 * max(0, second - 100)}, {}, schedule, {})
        rows = {row["name"]: row for row in json.loads((tmp_path / "live.json").read_text())["rows"]}

    assert rows["m"]["rate"] == pytest.approx(3.5), "half of it 5, half of it 2 a second"
