"""Sums are recorded before files get their names; a file with other bytes is damaged, even if it can be read."""

import errno
import hashlib
import shutil
import subprocess

import pytest

from orchestrator.storage import checksums
from tests.orchestrator.storage.test_episode_store import ids, write_store


def test_torn_or_missing_list_damages_nothing(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2), (3,))
    text = (folder / checksums.NAME).read_text()
    (folder / checksums.NAME).write_text(text + text[:30])
    assert ids(write_store(folder, (4,))) == [1, 2, 3, 4]
    (folder / checksums.NAME).unlink()
    assert ids(write_store(folder, (5,))) == [1, 2, 3, 4, 5]


def test_sha256sum_accepts_the_list(tmp_path):
    folder = write_store(tmp_path / "run", (1, 2), (3,))
    if not (tool := shutil.which("sha256sum")):
        pytest.skip("no sha256sum on this machine")
    command = [tool, "-c", "--quiet", "--ignore-missing", checksums.NAME]
    assert subprocess.run(command, cwd=folder).returncode == 0


def test_a_replaced_file_has_its_last_sums(tmp_path):
    path, contents = tmp_path / "status.json", [b"%d" % number for number in range(9)]
    for content in contents:
        checksums.write(path, content)
    digests = tuple(hashlib.sha256(content).hexdigest() for content in contents)
    assert checksums.read_sums(tmp_path)[path.name] == digests[-checksums.KEPT_SUMS :]
    assert checksums.damaged_files(tmp_path) == []
    path.write_bytes(contents[0])
    assert checksums.damaged_files(tmp_path) == [path.name], "an old copy is not the file"


def test_a_list_is_complete_only_if_it_was_there_before_the_first_part(tmp_path):
    (tmp_path / "old/episodes").mkdir(parents=True)
    (tmp_path / "old/episodes/part-00000001.parquet").touch()
    (tmp_path / "new").mkdir()
    for name in ("old", "new"):
        checksums.write(tmp_path / name / "a.json", b"1")
        assert (checksums.COMPLETE in checksums.read_sums(tmp_path / name)) == (name == "new")


def test_read_verified_returns_content_or_names_the_damaged_file(tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(b"of an earlier version")
    assert checksums.read_verified(path) == b"of an earlier version"
    checksums.write(path, b"one")
    assert checksums.read_verified(path) == b"one"
    path.write_bytes(b"edited")
    with pytest.raises(OSError, match=r"damaged or was edited.*plan\.json") as error:
        checksums.read_verified(path)
    assert error.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    "line", [f"{'0' * 63}  a", f"{'0' * 64} a", f"{'0' * 64}  a/b", f"{'0' * 64}  ../a", "g  a", ""]
)
def test_malformed_lines_are_ignored(tmp_path, line):
    (tmp_path / checksums.NAME).write_text(f"{line}\n{'1' * 64}  b.json\n{'2' * 64}  torn")
    assert checksums.read_sums(tmp_path) == {"b.json": ("1" * 64,)}
