"""Rows, lines and headlines of a snapshot: what each number is called, and what stands where there is none."""

import time
from dataclasses import asdict

import pytest

from orchestrator.monitoring.render import format_row, headline, lines, sentence, status_tables, table
from orchestrator.monitoring.snapshot import GroupRow, Snapshot
from orchestrator.report.tables.formats import show


@pytest.mark.parametrize(
    ("row", "left"),
    [
        (GroupRow("m", planned=5, waits="needs 16 GPUs", reason="killed"), "needs 16 GPUs"),
        (GroupRow("m", planned=5, reason="killed", waiting=5), "lost"),
        (GroupRow("m", planned=5, reason="killed", starting=1, waiting=5, seconds_left=60), "60 s"),
        (GroupRow("m", planned=5, reason="killed", ready=1, in_flight=5, seconds_left=60), "60 s"),
        (GroupRow("m", planned=5, done=5, reason="killed"), "done"),
        (GroupRow("m", planned=5, in_flight=1, paused=1, seconds_left=30), "30 s"),
        (GroupRow("m", planned=5, done=3, paused=2), "paused"),
        (GroupRow("m", planned=5, done=3, cancelled=2), "cancelled"),
        (GroupRow("m", planned=5, done=5), "done"),
        (GroupRow("m", planned=5, done=3, seconds_left=90), "90 s"),
        (GroupRow("m", planned=5, done=3), ""),
    ],
)
def test_last_column_says_when_or_why_not(row, left):
    assert format_row(row)["left"] == left


def test_a_line_leaves_out_what_is_zero():
    row = GroupRow(
        "m", ready=1, starting=2, gpus=0.5, rate=2, done=5, planned=2_000, in_flight=3, errors=2, seconds_left=60
    )

    assert sentence(row) == "m: replicas 1 +2, GPUs 0.5, episodes 5/2,000, 2/s, playing 3, errors 2, left 60 s"
    assert sentence(GroupRow("m", waits="waits for 2 GPUs", ready=1)) == "m: waits for 2 GPUs"


def test_models_that_wait_have_a_line_even_alone():
    waiting = GroupRow("m", waits="waits for 2 GPUs")

    assert lines(Snapshot(0.0, 0, 1, 0.0, None, 8, (waiting,))) == ["0 of 1 episodes (0%)", "  m: waits for 2 GPUs"]
    idle, starting = GroupRow("idle"), GroupRow("n", starting=1)
    (line,) = lines(Snapshot(0.0, 0, 1, 0.0, None, 8, (idle, starting)))[1:]
    assert line.startswith("  n:")


def test_names_are_no_markup_and_empty_columns_are_left_out(capsys):
    show(*table(Snapshot(0.0, 0, 1, 0.0, None, 8, (GroupRow("[red]m", ready=1, planned=0),))))
    _, heads, _, (name, *_), *_ = map(str.split, capsys.readouterr().out.splitlines())

    assert heads == ["model", "replicas", "episodes", "left"] and name == "[red]m"


def test_status_names_the_driver_and_the_age_of_its_report():
    live = {**asdict(Snapshot(time.time() - 300, 1, 2, 0.0, None, 8)), "rows": []}
    *_, reported = status_tables({"running": {"pid": 7, "host": "n1"}, "live": live, "cells": []})
    assert reported == "reported by process 7 on n1 5 min ago"
    live["at"] = time.time() + 500
    *_, reported = status_tables({"running": {"started": ""}, "live": live, "cells": []})
    assert reported == "reported by process ? on ? 0 s ago"


def test_a_percentage_is_100_only_at_the_end_however_long_the_numbers():
    assert headline(Snapshot(0.0, 2999, 3000, 0.0, None, 8)).endswith("(99%)")
    assert headline(Snapshot(0.0, 10**400, 10**400, 0.0, None, 8)).endswith("(100%)")
