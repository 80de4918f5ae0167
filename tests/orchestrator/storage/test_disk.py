"""A disk that cannot be written is one sentence that says what to do; any other error stays as it is."""

import errno

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.storage.disk import disk_errors


def attempt(folder, problem):
    with disk_errors(folder):
        raise problem


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_full_or_failing_disk_says_that_the_same_command_goes_on(tmp_path, number):
    for problem in (OSError(number, "x"), pl.exceptions.ComputeError(f"No space left on device (os error {number})")):
        with pytest.raises(RunFolderError, match=r"cannot be written \(.*rerun the same command to resume"):
            attempt(tmp_path, problem)


def test_a_folder_of_somebody_else_says_to_copy_it(tmp_path):
    with pytest.raises(RunFolderError, match="copy it to a folder of your own"):
        attempt(tmp_path, PermissionError(errno.EACCES, "x", str(tmp_path / "plan.json")))


def test_a_folder_that_was_moved_away_is_named(tmp_path):
    with pytest.raises(RunFolderError, match=r"run cannot be written .*moved or removed meanwhile.*move it back"):
        attempt(tmp_path / "run", FileNotFoundError(errno.ENOENT, "x", str(tmp_path / "run/plan.json")))


@pytest.mark.parametrize("problem", [OSError(errno.EACCES, "x", "/elsewhere/file"), OSError("x")], ids=repr)
def test_other_errors_stay_as_they_are(tmp_path, problem):
    with pytest.raises(type(problem)) as stayed:
        attempt(tmp_path, problem)
    assert stayed.value is problem
