"""Who holds a run folder is known to every process, and readers never hinder a writer."""

import errno
import json
import os

import pytest

from envs.errors import RunFolderError
from orchestrator.storage import lock


def test_a_link_to_a_held_folder_is_that_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")

    with lock.hold(tmp_path / "run"):
        with (
            pytest.raises(RunFolderError, match=f"link is in use by process {os.getpid()}"),
            lock.hold(tmp_path / "link"),
        ):
            pass
        assert lock.holder(tmp_path / "run")["pid"] == os.getpid()
    assert lock.holder(tmp_path / "run") is None


@pytest.mark.timeout(20)
def test_looking_for_the_holder_creates_nothing_and_never_waits(tmp_path):
    assert lock.holder(tmp_path) is None and lock.holder(tmp_path / "nowhere") is None
    assert list(tmp_path.iterdir()) == []
    os.mkfifo(tmp_path / lock.NAME)
    assert lock.holder(tmp_path) is None


def test_a_local_copy_names_the_writer_of_the_remote_run(tmp_path):
    writer = {"host": "node-7", "pid": 3, "started": "2026-01-01T00:00:00+00:00", "url": "s3://runs/a"}
    (tmp_path / lock.WRITER).write_text(json.dumps(writer))
    assert lock.holder(tmp_path) == writer
    for other in (b"{}", b"{", b"[]", b"3", b"\xff"):
        (tmp_path / lock.WRITER).write_bytes(other)
        assert lock.holder(tmp_path) is None


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with pytest.raises(RunFolderError, match=r"cannot be a run folder \(No locks available\)"), lock.hold(tmp_path):
        pass
    assert lock.holder(tmp_path) is None
    monkeypatch.undo()
    with lock.hold(tmp_path):
        pass
