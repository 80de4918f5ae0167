"""Progress of an attempt: when lines are printed, live.json is written and points are recorded, on a clock of the test."""

import json
import sys
from itertools import pairwise
from types import SimpleNamespace

import polars as pl
import pytest

from orchestrator.monitoring import progress
from orchestrator.monitoring.progress import NotebookTable, Progress
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.progress_log import stored_points
from orchestrator.tracking.tracker import NullTracker

PLANNED = pl.DataFrame(
    {"cell": ["a/ROD/hint", "b/ROD/hint", "m/ROD/hint"], "model": ["a", "b", "m"], "planned": [10, 20, 1000]}
)
GROUPS = {"a": "policies", "b": "policies", "m": "m"}


class RecordingTracker(NullTracker):
    """Keeps what it gets."""

    enabled = True

    def __init__(self):
        self.cells, self.points = [], []

    def cell(self, row):
        self.cells.append(row)

    def progress(self, point):
        self.points.append(point)


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    now.monotonic, now.time = (lambda: now.seconds), (lambda: 5e8 + now.seconds)
    monkeypatch.setattr(progress, "time", now)
    return now


def start(folder, tracker):
    schedule = Scheduler(
        {"policies": range(30), "m": range(30, 1030)}, dict.fromkeys(("policies", "m"), Demand(1, 0)), 8, 0
    )
    before = {"a/ROD/hint": 10, "m/ROD/hint": 200}
    return Progress(folder, PLANNED, before, {"m/ROD/hint": 4}, GROUPS, tracker), schedule


def test_lines_come_after_a_tenth_of_the_time_within_bounds(tmp_path, clock, capsys):
    display, schedule = start(tmp_path, NullTracker())
    printed = []
    with display:
        for second in range(2000):
            clock.seconds = 1000.0 + second
            display.show({"m/ROD/hint": second // 4, "b/ROD/hint": 5}, {"m/ROD/hint": 1}, schedule, {})
            if text := capsys.readouterr().err:
                printed.append((second, text))

    seconds = [second for second, _ in printed]
    assert seconds[:11] == [*range(10, 101, 10), 112], "at least ten seconds, then a tenth of the time"
    assert max(after - before for before, after in pairwise(seconds)) == 60
    assert printed[1][1].splitlines()[0].startswith("220 of 1,030 episodes (21%), ")


def test_live_file_is_written_every_five_seconds_and_removed(tmp_path, clock):
    display, schedule = start(tmp_path, NullTracker())
    live, times = tmp_path / "live.json", []
    with display:
        for half in range(40):
            clock.seconds = 1000.0 + half / 2
            display.show({"m/ROD/hint": 8}, {"m/ROD/hint": 1}, schedule, {"m": "killed"})
            if live.exists():
                times.append(half / 2)
                rows = {row["name"]: row for row in json.loads(live.read_text())["rows"]}
                live.unlink()
        live.write_text("{}")

    assert times == [0, 5, 10, 15]
    assert (rows["m"]["done"], rows["m"]["errors"], rows["m"]["reason"]) == (208, 5, "killed")
    assert (rows["policies"]["done"], rows["policies"]["planned"]) == (10, 30)
    assert not live.exists()


def test_points_hold_the_rate_since_the_last_one(tmp_path, clock):
    tracker = RecordingTracker()
    display, schedule = start(tmp_path, tracker)
    with display:
        for second, done in ((4, 8), (5, 20), (6, 28), (3000, 100), (3005, 105), (3007, 114)):
            clock.seconds = 1000.0 + second
            display.show({"m/ROD/hint": done}, {}, schedule, {})
        display.record({"system/load": 3.0})
        display.report_total(600, 300)

    rates = [(p.done - 210, p.at - 500_001_000_000, p.metrics.get("episodes_per_second")) for p in tracker.points]
    assert rates == [
        (8, 4_000, 2), (28, 6_000, 10), (100, 3_000_000, pytest.approx(72 / 2994)), (114, 3_007_000, 2),
        (114, 3_007_000, None), (600, 3_007_000, 2),
    ]  # fmt: skip
    assert stored_points(tmp_path) == tracker.points
    assert tracker.points[-2].metrics == {"system/load": 3.0}


def test_the_tracker_gets_every_cell_as_unfinished_at_the_start(tmp_path):
    tracker = RecordingTracker()
    display, _ = start(tmp_path, tracker)
    with display:
        pass

    assert [(row["cell"], row["finished"]) for row in tracker.cells] == [
        ("a/ROD/hint", 9), ("b/ROD/hint", 0), ("m/ROD/hint", 200),
    ]  # fmt: skip


def test_without_a_tracker_no_point_is_stored(tmp_path, capsys):
    display, _ = start(tmp_path, NullTracker())
    assert display.console.stderr, "results go to standard output"
    display.report_total(1_234, 100)

    assert stored_points(tmp_path) == []
    assert capsys.readouterr().err == "played 1,234 episodes in 100.0 s (12/s)\n"


def test_new_totals_replace_the_old_ones(tmp_path, clock):
    display, schedule = start(tmp_path, NullTracker())
    with display:
        display.replan(PLANNED.with_columns(planned=pl.lit(250)))
        display.show({}, {}, schedule, {})
        rows = json.loads((tmp_path / "live.json").read_text())["rows"]

    assert {row["name"]: row["planned"] for row in rows} == {"policies": 500, "m": 250}


def test_a_notebook_shows_one_table_that_changes(monkeypatch):
    shown = []
    handle = SimpleNamespace(update=lambda content, **options: shown.append((content, options)))

    def display(content, **options):
        shown.append((content, options))
        return handle

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    notebook = NotebookTable()
    notebook.start()
    for text in ("<a> of 2", "b" * 120):
        notebook.update(text, refresh=True)
    notebook.stop()

    wrapped = f"{'b' * 110}\n{'b' * 10}\n"
    assert shown == [
        ({"text/plain": "<a> of 2\n", "text/html": "<pre>&lt;a&gt; of 2\n</pre>"}, {"raw": True, "display_id": True}),
        ({"text/plain": wrapped, "text/html": f"<pre>{wrapped}</pre>"}, {"raw": True}),
    ]
