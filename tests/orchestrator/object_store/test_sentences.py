"""Sentences on runs in buckets, each whole, and what a bucket asks of its service."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import bucket as buckets
from orchestrator.object_store import conditional, run_location, uploader, writer_lock
from orchestrator.object_store.bucket import Bucket, BucketError, is_address
from orchestrator.object_store.run_location import RunLocation
from orchestrator.object_store.uploader import Uploader
from orchestrator.object_store.writer_lock import LOCK, WriterLock, read_holder
from tests.orchestrator.storage.test_episode_store import write_store


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    (tmp_path / "bucket").mkdir()
    return Bucket(f"file://{tmp_path}/bucket")


def refusal_of(call: Any, *arguments: Any) -> str:
    with pytest.raises(RunFolderError) as refused:
        call(*arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "s3://key:secret@bucket/run",
            "the address of bucket/run holds more than a bucket and a folder; keys belong in the environment"
            " (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS)",
        ),
        (
            "s3://bucket/run?key=secret",
            "the address of bucket/run holds more than a bucket and a folder; keys belong in the environment"
            " (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS)",
        ),
        ("s3:///run", "s3:///run names no bucket; write s3://BUCKET/FOLDER"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, sentence: str) -> None:
    assert refusal_of(Bucket, url) == sentence
    assert is_address(url) and not is_address("s3:/run")


def test_a_scheme_without_its_package_says_what_to_install() -> None:
    assert refusal_of(Bucket, "nosuch://b/run") == (
        "nosuch://b/run cannot be opened (Protocol not known: nosuch); pip install 'proactive-sweep[cloud]' reads s3:// and gs://"
    )


def test_an_object_is_looked_up_anew_and_a_folder_is_none(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answers = iter([{"type": "file", "size": 3}, {"type": "directory", "size": 0}])
    monkeypatch.setattr(bucket.fs, "info", lambda path, **options: asked.append((path, options)) or next(answers))
    stored = bucket.stat("a")
    assert stored is not None and stored.size == 3 and bucket.stat("b") is None
    assert asked == [(f"{bucket.root}/{name}", {"refresh": True}) for name in "ab"]


@pytest.mark.parametrize(
    ("response", "stored", "accepted"),
    [
        (None, {"size": 2, "v": "1"}, True), ({}, {"size": 2, "v": "1"}, True), ({"v": "1"}, {"size": 2, "v": "1"}, True),
        ({"v": "2"}, {"size": 2, "v": "1"}, False), (None, {"size": 1, "v": "1"}, False), (None, None, False),
    ],
)  # fmt: skip
def test_a_write_counts_if_the_service_holds_the_version_that_it_answered(
    response: Any, stored: Any, accepted: bool, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_details", lambda name: stored)
    monkeypatch.setattr(bucket.conditions, "version_of", lambda details: details.get("v", ""))
    if accepted:
        bucket._check_stored("a", b"12", response)
    else:
        with pytest.raises(BucketError, match=r"/a was accepted by the service and is not there$"):
            bucket._check_stored("a", b"12", response)


@pytest.mark.parametrize("exists", [True, False])
def test_without_conditions_a_name_is_looked_up_before_it_is_written(
    exists: bool, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    if exists:
        bucket.write("a", b"old")
    pipe = bucket.fs.pipe_file

    def pipe_file(path: str, content: bytes, **options: Any) -> Any:
        if options:
            raise OSError(errno.ENOSYS, "not implemented")
        return pipe(path, content)

    monkeypatch.setattr(bucket.fs, "pipe_file", pipe_file)
    assert bucket.create("a", b"new") is not exists and bucket.read("a") == (b"old" if exists else b"new")


def test_a_lost_race_is_no_error(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(path: str, content: bytes, **options: Any) -> None:
        problem = OSError("conflict")
        problem.__cause__ = ValueError()
        problem.__cause__.response = {"Error": {"Code": "ConditionalRequestConflict"}}  # type: ignore[attr-defined]
        raise problem

    monkeypatch.setattr(bucket.fs, "pipe_file", lose)
    assert bucket.create("a", b"new") is False
    assert conditional._code(OSError("x")) == "" and not conditional.lost_race(OSError("x"))


def test_a_damaged_part_is_moved_and_fetched_again(tmp_path: Path) -> None:
    folder = write_store(tmp_path / "run", (0,), (1,))
    names = [f"episodes/part-0000000{number}.parquet" for number in (1, 2)]
    for name in names:
        (folder / name).write_bytes(b"torn")
    lines: list[str] = []
    assert run_location._move_damaged(folder, {names[0]}, lines.append) == {names[0]}
    assert lines == [f"{folder / names[0]} is damaged; it is moved to damaged/ and fetched from the bucket again"]
    assert not (folder / names[0]).exists() and (folder / names[1]).read_bytes() == b"torn"


def test_an_upload_that_fails_at_the_end_is_said_and_makes_the_attempt_incomplete(tmp_path: Path, capsys: Any) -> None:
    location = RunLocation(tmp_path)
    run_location._finish(SimpleNamespace(close=lambda: RunFolderError("it is away")), location)  # type: ignore[arg-type]
    sentence = "it is away; the bucket is incomplete; the same command uploads the rest from this machine"
    assert location.unsent == sentence and capsys.readouterr().err == f"{sentence}\n"
    assert location.exit_code(0) == 1 and not (tmp_path / uploader.SENT).exists()


def test_a_sweep_that_lost_its_lock_stops_itself(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(run_location.os, "kill", lambda *arguments: sent.append(arguments))
    run_location._stop("taken")
    assert sent == [(os.getpid(), signal.SIGTERM)]
    assert capsys.readouterr().err == "taken: this sweep stops because another driver continues it\n"


def test_a_holder_is_waited_for_and_taken_over_in_two_lines(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    holder = WriterLock(bucket, silence=30.4, settle=0)
    holder.conditional = True
    bucket.write(LOCK, b'{"host": "h", "pid": 7, "started": "s", "attempt": "a", "place": "p"}')
    clock = iter([0.0, 1.0, 100.0])
    monkeypatch.setattr(writer_lock.time, "monotonic", lambda: next(clock))
    waits: list[float] = []
    monkeypatch.setattr(holder._released, "wait", waits.append)
    monkeypatch.setattr(bucket, "replace", lambda name, content, version: True)
    assert holder._take_over(lines.append) is True
    monkeypatch.undo()
    assert lines == [
        f"{bucket.url} is locked by process 7 on h (since s): waiting up to 30 s to see whether that process is alive",
        f"{bucket.url}: the lock of process 7 on h (since s) is taken over because that process is gone",
    ]
    assert waits == [2.0]


def test_a_holder_that_renews_is_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = WriterLock(bucket, silence=30, settle=0)
    beat = '{{"host": "h", "pid": 7, "started": "s", "attempt": "a", "place": "p", "beat": {}}}'
    bucket.write(LOCK, beat.format(1).encode())
    old = read_holder(bucket) or {}
    monkeypatch.setattr(holder._released, "wait", lambda seconds: bucket.write(LOCK, beat.format(2).encode()))
    assert refusal_of(holder._wait_for_silence, old, str) == (
        f"{bucket.url} is in use by process 7 on h (since s); wait for it, stop it, or pass another --output"
    )


def test_the_seconds_of_an_upload(bucket: Bucket, tmp_path: Path) -> None:
    assert (uploader.ROUND_INTERVAL_S, uploader.UPLOAD_TIMEOUT_S, uploader.LONGEST_PAUSE_S) == (1, 600, 30)
    assert (uploader.SENT, uploader.LISTING, buckets.CACHE) == ("sent", "listing", "PROACTIVE_SWEEP_CACHE")
    uploading = Uploader(bucket, tmp_path, WriterLock(bucket), {})
    pauses = []
    for failures in range(8):
        uploading._failures = failures
        pauses.append(uploading._pause())
    assert pauses == [2, 2, 4, 8, 16, 30, 30, 30]


def test_versions_and_conditional_writes_are_those_of_the_service(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    details = {"a": {"v": "1"}}
    monkeypatch.setattr(bucket, "_details", details.get)
    monkeypatch.setattr(bucket.conditions, "version_of", lambda fields: fields.get("v", ""))
    for name in ("replace", "delete"):
        monkeypatch.setattr(
            bucket.conditions, name, lambda *arguments, name=name: asked.append((name, *arguments)) or "yes"
        )
    assert (bucket.version("a"), bucket.version("b")) == ("1", "")
    assert bucket.replace("a", b"x", "1") == bucket.delete_version("a", "1") == "yes"
    assert asked == [("replace", f"{bucket.root}/a", b"x", "1"), ("delete", f"{bucket.root}/a", "1")]


@pytest.mark.parametrize(
    ("answer", "supported", "deleted"), [(False, True, []), (True, False, [buckets.PROBE]), (None, False, [])]
)
def test_a_service_supports_conditions_if_it_refuses_one(
    answer: bool | None, supported: bool, deleted: list[str], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def replace(path: str, content: bytes, version: str) -> bool:
        asked.append((path, content, version))
        if answer is None:
            raise conditional.Unsupported
        return answer

    removed: list[str] = []
    monkeypatch.setattr(bucket.conditions, "replace", replace)
    monkeypatch.setattr(bucket, "delete", removed.extend)
    assert bucket.supports_conditions() is supported and removed == deleted
    assert asked == [(f"{bucket.root}/lock.probe", b"", "1" * 16)]


def test_recorded_objects_that_a_list_lacks_are_requested(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = next(iter([run_location.checksums.GONE]))
    sums = {
        "plan.json": ("1",), "old.json": (gone,), "episodes/part-00000001-00000003.parquet": ("1",),
        "turns/part-00000001-00000003.parquet": ("1",), "episodes/part-00000002.parquet": ("1",),
        "turns/part-00000002.parquet": ("1",), "episodes/part-00000004.parquet": ("1",),
    }  # fmt: skip
    asked: list[str] = []
    stored = buckets.StoredObject(1, "", None)
    monkeypatch.setattr(run_location.checksums, "parse_sums", lambda content: sums)
    monkeypatch.setattr(bucket, "stat", lambda name: asked.append(name) or (None if "00000004" in name else stored))
    remote = {"listed.json": stored}
    run_location._add_recorded(bucket, remote)
    merged = {f"{table}/part-00000001-00000003.parquet" for table in ("episodes", "turns")}
    assert asked[0] == "plan.json" and set(asked[1:3]) == merged and asked[3:] == ["episodes/part-00000004.parquet"]
    assert set(remote) == {"listed.json", "plan.json", *merged}, "parts inside a merge are not asked for"
