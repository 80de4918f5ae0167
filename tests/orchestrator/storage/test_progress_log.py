"""The points of a run folder's progress read back, and nothing that a stranger wrote there breaks a reader."""

from datetime import UTC, datetime

import pytest

from orchestrator.storage.progress_log import FILE, Point, append_point, playing_times, stored_points


def test_points_of_all_attempts_read_back_in_their_order(tmp_path):
    points = [Point(done=1, at=5, episodes_per_second=2.5), Point(done=3, at=4)]
    for point in points:
        append_point(tmp_path, point)

    assert (tmp_path / "progress.jsonl").read_text().count("\n") == 2
    assert stored_points(tmp_path) == points
    assert stored_points(tmp_path)[0].episodes_per_second == 2.5


@pytest.mark.parametrize(
    "line",
    [
        "", "[]", '{"done": 1}', '{"done": "1", "at": 5}', '{"done": -1, "at": 5}',
        '{"done": 1, "at": 253402300800000}', '{"done": 1, "at": 5', '{"done": 1, "at": 5, "episodes_per_second": NaN}',
    ],
)  # fmt: skip
def test_torn_and_foreign_lines_are_skipped(tmp_path, line):
    (tmp_path / FILE).write_text(f'{{"done": 0, "at": 0}}\n{line}\n{{"done": 9007199254740991, "at": 2}}\n')

    assert [point.done for point in stored_points(tmp_path)] == [0, 2**53 - 1]


@pytest.mark.parametrize(
    ("points", "ended"),
    [
        ([(0, 1), (5, 3), (9, 4)], 4),
        ([(0, 1), (9, 4), (9, 8), (9, 9)], 4),
        ([(9, 1), (9, 7)], 1),
        ([(9, 2), (7, 3)], 3),
    ],
)
def test_a_run_ends_with_its_last_counted_episode_and_not_with_a_later_attempt(tmp_path, points, ended):
    assert playing_times(tmp_path) is None
    for done, second in points:
        append_point(tmp_path, Point(done=done, at=1000 * second + 7))

    seconds = (points[0][1], ended)
    assert playing_times(tmp_path) == tuple(datetime.fromtimestamp(second, UTC) for second in seconds)
