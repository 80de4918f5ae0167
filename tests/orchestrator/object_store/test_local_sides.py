"""Local copies of a run in a bucket are private to their owner and repaired from the bucket."""

from __future__ import annotations

import os
import re

import pytest

from orchestrator.object_store import run_location as remote
from orchestrator.storage.part_files import list_parts
from tests.orchestrator.object_store.test_object_store import stored_ids, write_parts
from tests.orchestrator.storage.test_episode_store import checked_ids
from tests.orchestrator.storage.test_flipped_bits import store_judged


def test_a_local_folder_has_the_short_plain_name_of_its_address_and_is_its_own():
    one, two = (remote.cache_folder(f"s3://bucket/my runs/{'x' * 60}{end}", "run") for end in "ab")
    assert one != two and re.fullmatch(r"x{59}a-[0-9a-f]{8}", one.parent.name)
    assert remote.cache_folder("s3://bucket/my runs/1", "view").parent.name.startswith("bucket-my-runs-1-")


@pytest.mark.parametrize("before", [None, 0o755], ids=["new", "of an earlier version"])
def test_local_copies_are_private_to_owner(url, before):
    """The writer's folder and a reader's copy: replies and logs are in both."""
    copies = [remote.cache_folder(url, use) for use in ("run", "view")]
    mask = os.umask(0)
    try:
        for copy in copies if before else ():
            copy.mkdir(parents=True)
            copy.chmod(before)
        with remote.open_location(url, str) as location:
            write_parts(location.folder, (1,))
            (location.folder / "logs/attempt-0001").mkdir(parents=True)
            (location.folder / "logs/attempt-0001/driver.log").write_text("a line")
        assert remote.readable_folder(url, started=False) == copies[1]
    finally:
        os.umask(mask)

    assert [copy.stat().st_mode & 0o777 for copy in copies] == [0o700, 0o700]
    inside = {path.relative_to(copies[1]): path.stat().st_mode & 0o777 for path in copies[1].rglob("*")}
    assert len(inside) > 5 and set(inside.values()) == {0o700, 0o600}, inside


def test_locally_damaged_part_is_fetched_from_bucket(url):
    """Replies that were paid for once are in the bucket."""
    with remote.open_location(url, str) as location:
        write_parts(location.folder, (1,), (2, 3))
        store_judged(location.folder, (4,))
    parts = [path.relative_to(location.folder) for path in location.folder.rglob("part-*.parquet")]
    for part in parts:
        raw = bytearray((location.folder / part).read_bytes())
        raw[len(raw) // 2] ^= 1
        (location.folder / part).write_bytes(raw)
    with remote.open_location(url, str) as location:
        assert len(parts) == 7
        assert checked_ids(location.folder) == {1, 2, 3, 4} and list_parts(location.folder).bad == []
    assert stored_ids(url) == {1, 2, 3, 4}
