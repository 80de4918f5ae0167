"""A bucket throttles; the run in it is complete in the end, without duplicates."""

from __future__ import annotations

from random import Random

import pytest

from orchestrator.object_store import run_location, uploader
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.object_store.test_object_store import stored_ids, write_parts


@pytest.fixture(autouse=True)
def shorten_pauses(monkeypatch):
    """Shorten pauses, so that a test meets many faults."""
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
