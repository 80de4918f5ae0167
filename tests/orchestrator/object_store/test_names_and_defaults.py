"""Names of local copies, order of keys of a listing, and the seconds that drivers of a bucket agree on."""

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store import bucket, control_client, run_location, uploader, writer_lock
from orchestrator.object_store.bucket import Bucket, StoredObject, cache_root
from orchestrator.object_store.run_location import RunLocation, _sort_parts, cache_folder, list_run
from orchestrator.object_store.writer_lock import ATTEMPT, LOCK, WriterLock, read_holder
from orchestrator.storage import control_log, lock


def test_the_cache_is_the_configured_one_else_the_environments_else_the_users(monkeypatch):
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_root("~/x") == Path("/home/me/x") and cache_root() == Path("/home/me/mine")
    monkeypatch.delenv("PROACTIVE_SWEEP_CACHE")
    assert cache_root() == Path("/xdg/proactive-sweep")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_root() == Path("/home/me/.cache/proactive-sweep")


def test_a_local_copy_has_a_readable_name_and_a_hash(monkeypatch):
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", "/c")
    assert cache_folder("s3://bucket/a run/{x}", "view") == Path("/c/bucket-a-run-x-6da0a65b/view")
    long = cache_folder(f"s3://{'b' * 70}/run", "run").parent.name
    assert long.startswith("b" * 56 + "-run-") and len(long) == 60 + 9


@pytest.mark.parametrize(
    ("details", "stored"),
    [
        ({"size": 3, "ETag": "e", "etag": "f"}, StoredObject(3, "e", None)),
        ({"size": None, "ETag": "", "etag": "f", "md5Hash": "m"}, StoredObject(0, "f", None)),
        ({"size": "7", "md5Hash": "m", "mtime": 5}, StoredObject(7, "m", None)),
        ({"size": 1, "mtime": 5.5, "created": 6}, StoredObject(1, "5.5", None)),
        ({"size": 1, "created": 6}, StoredObject(1, "6", None)),
        (
            {"size": 1, "LastModified": datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "updated": datetime(1980, 1, 1, tzinfo=UTC)},
            StoredObject(1, "", 60.0),
        ),
        (
            {"size": 1, "LastModified": "text", "updated": datetime(1970, 1, 1, 1, tzinfo=UTC), "ETag": 9},
            StoredObject(1, "9", 3600.0),
        ),
    ],
)  # fmt: skip
def test_a_listing_is_read_by_the_first_field_that_a_service_fills(details, stored):
    assert bucket._to_stored_object(details) == stored


def test_an_attempt_is_complete_only_if_everything_is_sent():
    codes = [RunLocation(Path(), unsent).exit_code(code) for unsent in ("", "no") for code in (0, 1, 3, 130)]
    assert codes == [0, 1, 3, 130, 1, 1, 3, 130]


def test_seconds_that_two_drivers_agree_on():
    """A holder renews four times before another takes it for dead."""
    assert (writer_lock.RENEWAL_INTERVAL_S, writer_lock.SILENCE_TIMEOUT_S, writer_lock.SETTLE_S) == (10, 45, 1)
    assert (writer_lock.TRIES, run_location.STALE_PAUSES_S, run_location.DOWNLOAD_THREADS) == (5, (0.0, 1.0, 2.0), 16)
    assert (uploader.SMALL_FILES_INTERVAL_S, uploader.COMMANDS_INTERVAL_S, uploader.RETRY_PAUSE_S) == (5, 2, 2)
    assert (control_client.POLL_INTERVAL_S, bucket.NO_VERSION, bucket.PROBE) == (0.5, "1" * 16, "lock.probe")


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "bucket/episodes").mkdir(parents=True)
    (tmp_path / "bucket/turns").mkdir()
    return Bucket(f"file://{tmp_path}/bucket")


def test_an_object_is_created_once(empty, monkeypatch):
    assert empty.create("episodes/a", b"1") is True and empty.create("episodes/a", b"2") is False
    assert empty.read("episodes/a") == b"1"

    def fail(*arguments, **options):
        raise OSError(5, "broken")

    monkeypatch.setattr(empty.fs, "pipe_file", fail)
    for change in (empty.create, empty.write):
        with pytest.raises(bucket.BucketError, match="bucket cannot be written"):
            change("episodes/b", b"1")


def test_fields_that_identify_an_object_by_service():
    assert bucket.MARKS == ("ETag", "etag", "md5Hash", "mtime", "created"), "S3, Google, Google's hash, files"
    assert bucket.TIMES == ("LastModified", "mtime", "updated", "created")


def test_the_holder_of_a_lock_is_named_with_what_to_do(empty):
    assert writer_lock._refusal(empty, None) == (
        f"{empty.url} is in use by a process that has just ended; wait for it, stop it, or pass another --output"
    )


def test_a_lock_names_host_process_start_attempt_and_place(empty):
    holder = WriterLock(empty, settle=0)
    before = datetime.now(UTC)
    holder.take(str)
    who = read_holder(empty)
    assert list(who) == ["host", "pid", "started", "attempt", "place", "beat"]
    assert (who["host"], who["pid"], who["beat"]) == (socket.gethostname(), os.getpid(), 0)
    assert abs((datetime.fromisoformat(who["started"]) - before).total_seconds()) < 30 and len(who["started"]) == 25
    host, pid, moment = who["attempt"].split("/")
    assert (host, pid) == (socket.gethostname(), str(os.getpid())) and int(moment) > 1e18
    boot, namespace = who["place"].split()
    assert len(boot) == 36 and namespace.startswith("pid:[")
    holder.release()
    assert read_holder(empty) is None


@pytest.mark.parametrize(("pid", "alive"), [(1, True), ("x", False), (None, False), (1 << 70, False)])
def test_a_pid_is_alive_or_none_of_a_process(pid, alive):
    assert writer_lock._alive(pid) is alive and writer_lock._alive(os.getpid()) is True


def test_a_pid_of_another_user_is_alive(monkeypatch):
    def refuse(pid, signal):
        raise PermissionError

    monkeypatch.setattr(writer_lock.os, "kill", refuse)
    assert writer_lock._alive(5) is True


def test_a_dead_process_of_another_place_is_watched(empty, monkeypatch):
    """Its pid says nothing here."""
    lines: list[str] = []
    holder = WriterLock(empty, silence=0.2, settle=0)
    who = {"host": "h", "pid": 1 << 22, "started": "s", "attempt": "a", "place": "elsewhere", "beat": 0}
    empty.write(LOCK, json.dumps(who).encode())
    holder.take(lines.append)
    assert "waiting up to 0 s" in lines[1] and "is taken over" in lines[2]

    lines.clear()
    empty.write(LOCK, json.dumps({**who, "place": writer_lock._process_scope()}).encode())
    WriterLock(empty, silence=60, settle=0).take(lines.append)
    assert len(lines) == 2 and "is taken over" in lines[1]


def test_a_lock_that_goes_while_it_is_watched_is_taken(empty, monkeypatch):
    holder = WriterLock(empty, silence=60, settle=0)
    empty.write(LOCK, json.dumps({"host": "h", "pid": 7, "started": "s", "attempt": "a", "place": "p"}).encode())
    waits = []

    def wait(seconds):
        waits.append(seconds)
        empty.delete([LOCK])

    monkeypatch.setattr(holder._released, "wait", wait)
    holder.take(str)
    assert waits == [2.0, 0] and read_holder(empty)["attempt"] == holder.attempt


def test_renewals_are_counted_and_a_lost_lock_is_said_once(empty, monkeypatch):
    holder, lost = WriterLock(empty, renew_every=0, settle=0), []
    holder.take(str)
    for beat in (1, 2):
        holder._renew()
        assert read_holder(empty)["beat"] == beat
    empty.write(LOCK, json.dumps({"host": "h", "pid": 7, "started": "s", "attempt": "a"}).encode())
    holder._renew_always(lost.append)
    assert len(lost) == 1 and " is in use by process 7 on h" in lost[0]


def test_parts_missing_from_a_list_are_asked_for_by_number(empty, monkeypatch):
    for table in ("episodes", "turns"):
        for number in (1, 2, 3, 5):
            empty.write(f"{table}/part-{number:08d}.parquet", b"x")
    empty.write("lock.probe", b"")
    empty.write("plan.json", b"{}")
    listed = empty.list_objects()
    hidden = {name for name in listed if name.endswith(("2.parquet", "5.parquet"))}
    monkeypatch.setattr(Bucket, "list_objects", lambda self: {n: o for n, o in listed.items() if n not in hidden})
    asked: list[str] = []
    stat = Bucket.stat
    monkeypatch.setattr(Bucket, "stat", lambda self, name: (asked.append(name), stat(self, name))[1])
    names = [f"{table}/part-0000000{number}.parquet" for table in ("episodes", "turns") for number in (1, 2, 3)]
    assert sorted(list_run(empty)) == sorted([*names, "plan.json"])
    assert [name for name in asked if name.startswith("episodes/")] == [
        f"episodes/part-0000000{number}.parquet" for number in (2, 4)
    ]


def test_merges_come_before_the_parts_inside_them():
    names = ["turns/part-00000002.parquet", "turns/part-00000001.parquet", "episodes/part-00000001-00000002.parquet",
             "verdicts/part-00000001.parquet", "plan.json"]  # fmt: skip
    assert [(part.first, part.last) for part in _sort_parts(names)] == [(1, 2), (1, 1), (2, 2)]


def test_files_of_this_machine_are_kept_only_if_they_were_not_sent(tmp_path):
    lines: list[str] = []
    folder = tmp_path / "run"
    run_location._put_aside(folder, "s3://b/r", lines.append)
    for sent, episodes, kept in ((True, True, False), (False, False, False), (False, True, True)):
        (folder / "episodes").mkdir(parents=True)
        if episodes:
            (folder / "episodes/part-00000001.parquet").touch()
        if sent:
            (folder / "sent").touch()
        run_location._put_aside(folder, "s3://b/r", lines.append)
        assert not folder.exists() and len(lines) == int(kept)
    (aside,) = tmp_path.glob("run-left-*")
    assert lines == [f"another machine continued s3://b/r; files that this machine did not upload are kept in {aside}"]


def test_a_readers_copy_follows_the_bucket_and_names_its_writer(empty, tmp_path, monkeypatch):
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", str(tmp_path / "cache"))
    empty.write("plan.json", b"old")
    empty.write("gone.json", b"x")
    folder = run_location.readable_folder(empty.url)
    assert (folder / "plan.json").read_bytes() == b"old" and json.loads((folder / lock.WRITER).read_text()) == {}
    stamp = empty.stat("plan.json").modified
    assert stamp is None or (folder / "plan.json").stat().st_mtime == stamp

    empty.delete(["gone.json"])
    empty.write("plan.json", b"newer")
    holder = {"host": "h", "pid": 7, "started": "s", "attempt": "a", "beat": 3}
    empty.write(LOCK, json.dumps(holder).encode())
    (folder / "plan.json").write_bytes(b"lost")
    assert run_location.readable_folder(empty.url) == folder
    assert (folder / "plan.json").read_bytes() == b"newer" and not (folder / "gone.json").exists()
    assert json.loads((folder / lock.WRITER).read_text()) == {"host": "h", "pid": 7, "started": "s"}
    listing = (folder / uploader.LISTING).read_text().split("\n")
    assert [line.split(" ")[:2] for line in listing] == [["plan.json", "5"]]


def test_an_address_without_a_run_is_a_sentence_unless_none_is_expected(empty):
    with pytest.raises(RunFolderError) as refused:
        run_location.readable_folder(empty.url)
    assert str(refused.value) == (
        f"{empty.url} holds no run yet; `proactive-sweep run SWEEP --output {empty.url}` starts one"
    )
    assert run_location.readable_folder(empty.url, started=False).is_dir()
    assert run_location.readable_folder("some/folder") == Path("some/folder")


@pytest.mark.parametrize("name", ["../evil", "a/../b", "/evil"])
def test_an_object_that_would_land_elsewhere_is_refused(empty, tmp_path, name):
    with pytest.raises(RunFolderError) as refused:
        run_location._fetch(empty, tmp_path / "x", {"a": StoredObject(1, "", None), name: StoredObject(1, "", None)})
    assert str(refused.value) == f"{empty.url} holds an object called {name}, which is no file of a run folder"


def test_an_attempt_keeps_its_name_and_the_one_before(empty, tmp_path, monkeypatch):
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", str(tmp_path / "cache"))
    empty.write(ATTEMPT, b"before")
    with run_location.open_location(empty.url, str) as location:
        mine = empty.read(ATTEMPT)
        assert (location.folder / ATTEMPT).read_bytes() == mine + b"\nbefore"
        assert not (location.folder / uploader.SENT).exists()
    assert (location.folder / uploader.SENT).read_bytes() == b"" and location.exit_code(0) == 0


def test_errors_name_the_address_and_not_the_copy(tmp_path):
    with pytest.raises(RunFolderError) as refused, run_location._address_errors("s3://b/r", tmp_path):
        raise RunFolderError(f"{tmp_path} is odd, and {tmp_path}/x too")
    assert str(refused.value) == "s3://b/r is odd, and s3://b/r/x too"


def test_a_copy_has_the_time_of_its_object_where_the_service_gives_one(empty, tmp_path):
    for name in ("a", "b"):
        empty.write(name, b"x")
    assert run_location._fetch(empty, tmp_path / "x", {"a": StoredObject(1, "", 60.0), "b": StoredObject(1, "", None)})
    assert (tmp_path / "x/a").stat().st_mtime == 60 < (tmp_path / "x/b").stat().st_mtime
    assert not run_location._fetch(empty, tmp_path / "x", {"gone": StoredObject(1, "", None)})


def test_a_command_that_was_sent_between_attempts_is_there_when_one_begins(empty, tmp_path, monkeypatch):
    monkeypatch.setenv("PROACTIVE_SWEEP_CACHE", str(tmp_path / "cache"))
    name, content = control_log.command_file(control_log.parse_command("pause", "oracle"))
    empty.fs.mkdirs(f"{empty.root}/{control_log.INBOX}")
    empty.write(f"{control_log.INBOX}/{name}", content)
    with run_location.open_location(empty.url, str) as location:
        assert (location.folder / control_log.INBOX / name).read_bytes() == content


def test_a_lock_that_is_lost_during_a_renewal_is_known_at_once(empty, monkeypatch):
    holder = WriterLock(empty, settle=0)
    holder.take(str)
    holder.conditional = True
    monkeypatch.setattr(empty, "version", lambda name: "v1")
    written: list[str] = []
    monkeypatch.setattr(empty, "replace", lambda name, content, version: written.append(version) or True)
    checks: list[int] = []
    monkeypatch.setattr(holder, "check", lambda: checks.append(1))
    holder._renew()
    assert (written, len(checks)) == (["v1"], 1)
    monkeypatch.setattr(empty, "replace", lambda name, content, version: False)
    holder._renew()
    assert len(checks) == 3, "before and after"


def test_a_lock_that_is_ours_after_a_lost_reply_is_not_waited_for(empty, monkeypatch):
    holder = WriterLock(empty, silence=60, settle=0)
    empty.write(LOCK, holder._content())
    monkeypatch.setattr(holder._released, "wait", lambda seconds: pytest.fail("waited"))
    assert holder._take_over(str) is True
