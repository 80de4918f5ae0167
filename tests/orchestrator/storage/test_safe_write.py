"""A file is complete or absent, no file is more accessible than its folder, and no write leaves a run folder by a link."""

import errno
import os
import stat
from pathlib import Path

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.storage import safe_write

FRAME = pl.DataFrame({"a": [1]})


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_without_waiting_for_a_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or a device"):
        safe_write.open_file(tmp_path / "pipe", os.O_RDWR)


@pytest.mark.parametrize("before", [b"", b"one\n", b"one\ntorn", b"torn"])
def test_lines_follow_whole_lines(tmp_path, before):
    (tmp_path / "lines").write_bytes(before)
    safe_write.append(tmp_path / "lines", b"two\nthree\n")
    assert (tmp_path / "lines").read_bytes() == before.removesuffix(b"torn") + b"two\nthree\n"


def test_files_moved_aside_keep_apart_under_names_that_say_where_they_were(tmp_path):
    (tmp_path / "turns").mkdir()
    for content in ("first", "second"):
        (tmp_path / "turns/part").write_text(content)
        safe_write.move_aside(tmp_path, tmp_path / "turns/part")
    contents = {path.name: path.read_text() for path in (tmp_path / "damaged").iterdir()}
    assert contents == {"turns-part": "first", "turns-part.1": "second"}


@pytest.fixture
def outside(tmp_path):
    """A folder with a file that no run may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/thesis").write_text("years of work")
    yield tmp_path / "outside"
    assert {path.name: path.read_text() for path in (tmp_path / "outside").iterdir()} == {"thesis": "years of work"}


@pytest.fixture
def run(tmp_path):
    """A run folder that is reached by a link, as on a cluster's scratch disk."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / safe_write.MARK).touch()
    (tmp_path / "run").symlink_to("scratch")
    return tmp_path / "run"


WRITES = {
    "write": lambda path: safe_write.write(path, b"gone"),
    "table": lambda path: safe_write.write(path, FRAME),
    "append": lambda path: safe_write.append(path, b"gone"),
    "truncate": lambda path: os.close(safe_write.open_file(path, os.O_RDWR | os.O_TRUNC)),
    "remove": safe_write.remove,
    "make folder": lambda path: safe_write.make_folder(path / "new"),
    "move aside": lambda path: safe_write.move_aside(path.parent.parent, path),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_no_write_passes_through_a_linked_folder(run, outside, write):
    (run / "tables").symlink_to(outside)
    with pytest.raises(RunFolderError, match=r"tables.* is a link"):
        write(run / "tables" / "thesis")


@pytest.mark.parametrize("name", ["append", "truncate"])
def test_no_file_is_written_in_place_through_a_link(run, outside, name):
    (run / "lock").symlink_to(outside / "thesis")
    with pytest.raises(RunFolderError, match="lock is a link"):
        WRITES[name](run / "lock")


def test_a_replaced_link_leaves_its_target_alone(run, outside):
    (run / "results.json").symlink_to(outside / "thesis")
    (run / "results.json.tmp").symlink_to(outside / "thesis")
    safe_write.write(run / "results.json", b"{}")
    assert (run / "results.json").read_bytes() == b"{}" and not (run / "results.json").is_symlink()


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/nowhere"), os.mkfifo], ids=["link", "pipe"])
@pytest.mark.parametrize("name", ["lock", "tables", "mlartifacts/1/a"])
def test_links_and_pipes_in_a_run_folder_are_refused(run, name, make):
    safe_write.refuse_links(run)
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    make(run / name)
    with pytest.raises(RunFolderError, match=f"{name} is a link, a pipe or a device"):
        safe_write.refuse_links(run)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
def test_a_file_system_may_refuse_to_flush_folders(tmp_path, monkeypatch, code):
    """As CIFS and FUSE do; a broken disk is an error."""
    real = os.fsync

    def flush(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))
        real(handle)

    monkeypatch.setattr(os, "fsync", flush)
    if code == errno.EIO:
        with pytest.raises(OSError, match="error"):
            safe_write.write(tmp_path / "plan.json", b"{}")
    else:
        safe_write.write(tmp_path / "plan.json", b"{}")
    assert (tmp_path / "plan.json").read_bytes() == b"{}"


@pytest.mark.parametrize("write", [WRITES["write"], WRITES["table"], WRITES["append"]])
@pytest.mark.parametrize("failures", [2, 10**9])
def test_a_full_disk_is_waited_out_for_a_while(tmp_path, monkeypatch, caplog, write, failures):
    left, real = iter(range(failures)), os.fsync

    def flush(handle):
        if next(left, None) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(safe_write, "PAUSE_S", 0.01)
    monkeypatch.setattr(safe_write, "PATIENCE_S", 60.0 if failures == 2 else 0.05)
    monkeypatch.setattr(safe_write, "_full_since", None)
    monkeypatch.setattr(os, "fsync", flush)
    if failures == 2:
        write(tmp_path / "file")
        assert [path.name for path in Path(tmp_path).iterdir()] == ["file"]
    else:
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                write(tmp_path / "file")
    assert caplog.text.count("the disk is full") == 1
