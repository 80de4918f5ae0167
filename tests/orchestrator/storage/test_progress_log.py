"""The points of a run folder's progress read back, and nothing that a stranger wrote there breaks a reader."""

import pytest

from orchestrator.storage.progress_log import FILE, Point, append_point, stored_points


def test_points_of_all_attempts_read_back_in_their_order(tmp_path):
    points = [Point(done=1, at=5, episodes_per_second=2.5), Point(done=3, at=4)]
    for point in points:
        append_point(tmp_path, point)

    assert (tmp_path / "progress.jsonl").read_text().count("\n") == 2
    assert stored_points(tmp_path) == points
    assert stored_points(tmp_path)[0].metrics == {"episodes_per_second": 2.5}


@pytest.mark.parametrize(
    "line",
    ["", "[]", '{"done": 1}', '{"done": "1", "at": 5}', '{"done": -1, "at": 5}', '{"done": 1, "at": 5'],
)
def test_torn_and_foreign_lines_are_skipped(tmp_path, line):
    (tmp_path / FILE).write_text(f'{{"done": 0, "at": 0}}\n{line}\n{{"done": 9007199254740991, "at": 2}}\n')

    assert [point.done for point in stored_points(tmp_path)] == [0, 2**53 - 1]
