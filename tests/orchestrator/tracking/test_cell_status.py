"""A cell's status in MLflow follows from its counts."""

import pytest

from orchestrator.tracking.mlflow.run import _cell_status


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"planned": 10, "finished": 9}, "RUNNING"),
        ({"planned": 1, "finished": 0}, "RUNNING"),
        ({"planned": 1, "finished": None}, "RUNNING"),
        ({"planned": 1}, "RUNNING"),
        ({"planned": 10, "finished": 10}, "FINISHED"),
        ({"planned": 10, "finished": 11}, "FINISHED"),
        ({"planned": 0}, "FINISHED"),
        ({"finished": 0}, "FINISHED"),
        ({"planned": 10, "finished": 10, "failed": 1}, "FAILED"),
        ({"planned": 10, "finished": 10, "failed": 0}, "FINISHED"),
        ({"planned": 10, "finished": 9, "failed": 1}, "RUNNING"),
    ],
)
def test_a_cell_runs_until_all_its_episodes_are_stored(row, status):
    assert _cell_status(row) == status
