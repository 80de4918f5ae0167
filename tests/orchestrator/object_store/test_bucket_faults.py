"""A bucket throttles, loses writes or returns stale listings; the run in it is complete in the end, without duplicates."""

from __future__ import annotations

from random import Random

import pytest

from orchestrator.object_store import run_location, uploader
from orchestrator.object_store.bucket import Bucket
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.object_store.test_object_store import stored_ids, switch_machine, write_parts
from tests.orchestrator.storage.test_episode_store import checked_ids


@pytest.fixture(autouse=True)
def shorten_pauses(monkeypatch):
    """Shorten pauses, so that a test meets many faults."""
    monkeypatch.setattr(uploader, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(uploader, "LONGEST_PAUSE_S", 0.2)
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.05)


def test_throttling_bucket_receives_everything_in_the_end(url, service, capsys):
    chance = Random("throttled")
    with run_location.open_location(url, str) as location:
        service.faults.throttled = lambda method, path: method == "PUT"
        write_parts(location.folder, (1, 2), (3,))
        wait_for(lambda: "the upload is retried" in capsys.readouterr().err)
        service.faults.throttled = lambda method, path: chance.random() < 0.3
        write_parts(location.folder, (4,), (5, 6), merged=True)
        wait_for(lambda: service.faults.count["SlowDown"] > 8)
        service.faults.throttled = lambda method, path: method in ("PUT", "DELETE") and chance.random() < 0.3

    assert service.faults.count["SlowDown"] > 5
    service.faults.clear()
    assert not location.unsent and stored_ids(url) == {1, 2, 3, 4, 5, 6}


def test_lost_writes_are_repeated(url, service, tmp_path, monkeypatch):
    chance = Random("lost")
    with run_location.open_location(url, str) as location:
        service.faults.lost = lambda path: not path.endswith("lock") and chance.random() < 0.4
        write_parts(location.folder, (1, 2), (3,), (4,))
        wait_for(lambda: "episodes/part-00000003.parquet" in Bucket(url).list_objects())
        assert stored_ids(url) == {1, 2, 3, 4}
        write_parts(location.folder, (5,), merged=True)
    assert service.faults.count["lost"] > 0
    service.faults.clear()

    assert not location.unsent and stored_ids(url) == {1, 2, 3, 4, 5}
    switch_machine(monkeypatch, tmp_path, "other")
    with run_location.open_location(url, str) as location:
        assert {path.name for path in (location.folder / "episodes").iterdir()} == {"part-00000001-00000004.parquet"}


def test_listing_that_is_older_than_a_merge_hides_no_episode(url, service, tmp_path, monkeypatch):
    """Found by simulated seed 16: the attempt began without the merged episodes, and played them again."""
    monkeypatch.setattr(run_location, "STALE_PAUSES_S", (0.0, 0.0))
    with run_location.open_location(url, str) as location:
        write_parts(location.folder, (1,), (2,))
    service.faults.stale = True
    assert len(Bucket(url).list_objects()) >= 4  # the listing that is returned from here on
    with run_location.open_location(url, str) as location:
        write_parts(location.folder, (3,), merged=True)

    switch_machine(monkeypatch, tmp_path, "other")
    with run_location.open_location(url, str) as location:
        assert checked_ids(location.folder) == {1, 2, 3}
        write_parts(location.folder, (4,), merged=True)
    assert not location.unsent and stored_ids(url) == {1, 2, 3, 4}
    assert service.faults.count["stale"] > 3
    service.faults.clear()
    names = [name for name in Bucket(url).list_objects() if name.startswith(("episodes/", "turns/"))]
    assert names == [f"{table}/part-00000001-00000004.parquet" for table in ("episodes", "turns")]
    switch_machine(monkeypatch, tmp_path, "third")
    assert stored_ids(url) == {1, 2, 3, 4}
