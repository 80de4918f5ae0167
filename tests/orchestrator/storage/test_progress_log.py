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


def test_a_folder_without_the_file_has_no_points_and_one_that_is_gone_costs_only_the_point(tmp_path):
    append_point(tmp_path / "nowhere", Point(done=1, at=5))

    assert stored_points(tmp_path) == [] == stored_points(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", '{"done": 1}', '{"done": "1", "at": 5}', '{"done": true, "at": 5}', '{"done": -1, "at": 5}',
     '{"done": 1, "at": 9007199254740992}', '{"done": 1, "at": 1.5}', '{"done": 1, "at": 5'],
)  # fmt: skip
def test_torn_and_foreign_lines_are_skipped(tmp_path, line):
    (tmp_path / FILE).write_text(f'{{"done": 0, "at": 0}}\n{line}\n{{"done": 9007199254740991, "at": 2}}\n')

    assert [point.done for point in stored_points(tmp_path)] == [0, 2**53 - 1]


def test_only_finite_numbers_under_names_that_a_tracker_accepts_are_metrics():
    fields = {
        "system/node-1/gpu_0 (W)": 1, "a b:c.d/e-f_g": 2, "x" * 200: 3, "y" * 201: 4, "text": "5", "list": [6], "no": None,
        "huge": 1e300, "tiny": -1e300, "infinite": float("inf"), "unknown": float("nan"), "large": 9e299, "negative": -9e299,
    }  # fmt: skip

    assert Point(done=1, at=5, **fields).metrics == {
        "a b:c.d/e-f_g": 2,
        "x" * 200: 3,
        "large": 9e299,
        "negative": -9e299,
    }
