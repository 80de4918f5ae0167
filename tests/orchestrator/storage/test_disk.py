"""A disk that cannot be written is one sentence that says what to do; any other error stays as it is."""

import errno
import subprocess
import sys

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.storage import safe_write
from orchestrator.storage.disk import disk_errors


def attempt(folder, problem):
    with disk_errors(folder):
        raise problem


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_full_or_failing_disk_says_that_the_same_command_goes_on(tmp_path, number):
    for problem in (OSError(number, "x"), pl.exceptions.ComputeError(f"No space left on device (os error {number})")):
        with pytest.raises(RunFolderError, match=r"cannot be written \(.*rerun the same command to resume"):
            attempt(tmp_path, problem)


def test_a_file_that_may_not_be_written_is_named_with_its_folder(tmp_path):
    (tmp_path / "plan.json.tmp").mkdir()
    with pytest.raises(RunFolderError, match="copy it to a folder of your own, and name that") as refused:  # noqa: SIM117
        with disk_errors(tmp_path):
            safe_write.write(tmp_path / "plan.json", b"{}")
    assert f"{tmp_path}/plan.json.tmp" in str(refused.value) and "rerun" not in str(refused.value)


def test_a_folder_that_was_moved_away_is_named(tmp_path):
    with pytest.raises(RunFolderError, match=r"run cannot be written .*moved or removed meanwhile.*move it back"):
        attempt(tmp_path / "run", FileNotFoundError(errno.ENOENT, "x", str(tmp_path / "run/plan.json")))


@pytest.mark.parametrize("problem", [OSError(errno.EACCES, "x", "/elsewhere/file"), OSError("x")], ids=repr)
def test_other_errors_stay_as_they_are(tmp_path, problem):
    with pytest.raises(type(problem)) as stayed:
        attempt(tmp_path, problem)
    assert stayed.value is problem


def test_a_disk_that_fills_anywhere_in_a_table_says_so(tmp_path):
    """A limit at each place of the file, footer included; in a process of its own, whose limit nobody else feels."""
    script = """
import resource, sys
from pathlib import Path
import polars as pl
from orchestrator.storage import safe_write

path, frame = Path(sys.argv[1]), pl.DataFrame({f"c{n}": range(400) for n in range(12)})
safe_write.prepare(path, frame)
for limit in range(0, safe_write.temporary_path(path).stat().st_size, 499):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        safe_write.prepare(path, frame)
    except Exception as problem:
        print(safe_write.error_number(problem))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "a.parquet"], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {str(errno.EFBIG)} and len(done.stdout.split()) > 20
