"""The local sides of a run in a bucket: for their owner alone, and mended from the bucket where they are damaged."""

from __future__ import annotations

import os

import pytest

from orchestrator.object_store import run_location as remote
from orchestrator.storage.part_files import damaged_parts
from orchestrator.storage.verdict_store import damaged_verdicts
from tests.orchestrator.object_store.test_object_store import stored, write
from tests.orchestrator.storage.test_episode_store import sound
from tests.orchestrator.storage.test_flipped_bits import judged


@pytest.mark.parametrize("before", [None, 0o755], ids=["new", "of an earlier version"])
def test_local_sides_of_a_run_are_their_owners_alone(url, before):
    """The writer's folder and a reader's copy: replies and logs are in both."""
    sides = [remote.cache_folder(url, use) for use in ("run", "view")]
    mask = os.umask(0)
    try:
        for side in sides if before else ():
            side.mkdir(parents=True)
            side.chmod(before)
        with remote.open_location(url, str) as place:
            write(place.folder, (1,))
            (place.folder / "logs/attempt-0001").mkdir(parents=True)
            (place.folder / "logs/attempt-0001/driver.log").write_text("a line")
        assert remote.readable_folder(url) == sides[1]
    finally:
        os.umask(mask)

    assert [side.stat().st_mode & 0o777 for side in sides] == [0o700, 0o700]
    inside = {path.relative_to(sides[1]): path.stat().st_mode & 0o777 for path in sides[1].rglob("*")}
    assert len(inside) > 5 and set(inside.values()) == {0o700, 0o600}, inside


def test_a_part_damaged_here_is_fetched_again_and_not_played_again(url):
    """What a paid service has answered once is in the bucket."""
    with remote.open_location(url, str) as place:
        write(place.folder, (1,), (2, 3))
        judged(place.folder, (4,))
    parts = [path.relative_to(place.folder) for path in place.folder.rglob("part-*.parquet")]
    for part in parts:
        raw = bytearray((place.folder / part).read_bytes())
        raw[len(raw) // 2] ^= 1
        (place.folder / part).write_bytes(raw)
    said: list[str] = []
    with remote.open_location(url, said.append) as place:
        assert len(parts) == len(said) == 7 and all("fetched from the bucket again" in line for line in said)
        assert (
            sound(place.folder) == {1, 2, 3, 4} and damaged_parts(place.folder) == damaged_verdicts(place.folder) == []
        )
    assert stored(url) == {1, 2, 3, 4}
