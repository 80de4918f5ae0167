"""The table of held GPUs: hours and shares of held time per model or judge."""

import polars as pl

from orchestrator.report.read_run import read_run
from orchestrator.report.tables.behavior import TIME_COLUMNS, replica_time_table
from orchestrator.storage.replica_time import HELD, ReplicaTime, write_attempts
from tests.orchestrator.report.runs import play_sweep, sweep


def test_lines_hold_hours_and_shares_of_held_time(demo_data, tmp_path):
    run = play_sweep(tmp_path / "run", sweep(demo_data, ["abstain"], ["zero-shot"], scenarios=["ROD"]))
    time = ReplicaTime(gpus=2, waiting=900, loading=360, playing=2700, idle=540)
    write_attempts(run, {"a": {"z": time, "b": ReplicaTime(playing=7200), "unused": ReplicaTime(waiting=60)}})

    table = replica_time_table(read_run(run))

    assert [[cell.text for cell in row] for row in table.rows] == [
        ["b", "0", "2.00", "0", "100", "0", "0", "0", "0.00"],
        ["z", "2", "2.00", "10", "75", "0", "15", "0", "0.50"],
    ]
    assert [cell.value for cell in table.rows[1][1:]] == [2, 2, 360, 2700, 0, 540, 0, 0.5]
    assert table.title == "2.0 GPU-hours held: 10% loading, 75% playing, 15% idle; 30.0 GPU-minutes waiting in Ray"
    assert table.name == "replica-time"
    assert [column.name for column in TIME_COLUMNS] == [
        "model or judge", "GPUs", "held", *(f"{part} %" for part in HELD), "waiting",
    ]  # fmt: skip
    assert [column.number for column in TIME_COLUMNS] == [False] + 8 * [True]
    assert table.numbers.equals(
        pl.DataFrame(
            {"group": ["b", "z"], "gpus": [0.0, 2], "waiting": [0.0, 900], "loading": [0.0, 360], "playing": [7200.0, 2700],
             "judging": [0.0, 0], "idle": [0.0, 540], "lost": [0.0, 0]}
        )
    )  # fmt: skip
