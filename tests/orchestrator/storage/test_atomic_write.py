"""A file is complete or absent, and no file is more accessible than its folder."""

import errno
import os

import polars as pl
import pytest

from orchestrator.storage import atomic_write


def modes(folder):
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_missing_parents_take_the_permissions_of_the_folder_above(tmp_path):
    tmp_path.chmod(0o750)

    for _ in range(2):
        atomic_write.make_folders(tmp_path / "a/b/c")

    assert modes(tmp_path) == {"a": 0o750, "a/b": 0o750, "a/b/c": 0o750}


def test_a_private_folder_is_private_also_if_it_was_open_before(tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)

    for name in ("open", "new/deep"):
        for _ in range(2):
            atomic_write.make_private(tmp_path / name)

    assert modes(tmp_path)["open"] == modes(tmp_path)["new/deep"] == 0o700


def test_a_file_is_as_accessible_as_its_folder_and_not_executable(tmp_path):
    tmp_path.chmod(0o750)

    atomic_write.write(tmp_path / "plan.json", b"{}")

    assert modes(tmp_path) == {"plan.json": 0o640}


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_without_waiting_for_a_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="it is a pipe or a device") as refusal:
        atomic_write.open_regular_file(tmp_path / "pipe", os.O_RDWR)

    assert refusal.value.errno == errno.EINVAL and refusal.value.filename == str(tmp_path / "pipe")


def test_opened_files_are_not_inherited_by_other_programs(tmp_path):
    handle = atomic_write.open_regular_file(tmp_path / "file", os.O_RDWR)

    assert not os.get_inheritable(handle)
    os.close(handle)


def test_content_has_its_name_only_once_it_is_published(tmp_path):
    path = tmp_path / "table.parquet"
    atomic_write.temporary_path(path).write_bytes(b"left by a crash, and longer than what follows")

    atomic_write.prepare(path, b"new")
    assert not path.exists()
    atomic_write.publish(path)

    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("frame", [pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]})], ids=["frame", "lazy frame"])
def test_a_table_replaces_the_one_before(tmp_path, frame):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"old")

    atomic_write.write_table(path, frame, compression="uncompressed")

    assert pl.read_parquet(path)["a"].to_list() == [1] and list(tmp_path.iterdir()) == [path]


def test_files_moved_aside_keep_apart_under_names_that_say_where_they_were(tmp_path):
    (tmp_path / "turns").mkdir()
    for content in ("first", "second", "third"):
        (tmp_path / "turns/part-1.parquet").write_text(content)
        atomic_write.move_aside(tmp_path, tmp_path / "turns/part-1.parquet")

    assert {path.name: path.read_text() for path in (tmp_path / "damaged").iterdir()} == {
        "turns-part-1.parquet": "first",
        "turns-part-1.parquet.1": "second",
        "turns-part-1.parquet.2": "third",
    }
