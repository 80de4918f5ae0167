"""Lists the objects of a run folder in a bucket, also those that a stale list leaves out."""

import itertools
from collections.abc import Collection, Iterable

from orchestrator.object_store.bucket import Bucket, StoredObject
from orchestrator.object_store.uploader import is_shared, parse_part
from orchestrator.storage import checksums
from orchestrator.storage.part_files import Part
from orchestrator.storage.schemas import PAIRED, TABLES


def list_run(bucket: Bucket) -> dict[str, StoredObject]:
    """Return the objects of a run folder; those missing from a stale list are requested by number, and by their sums."""
    remote = {name: stored for name, stored in bucket.list_objects().items() if is_shared(name)}
    for table in ("episodes", "turns", "options", "verdicts"):  # an episodes part was written last
        parts = [part for name in remote if name.startswith(f"{table}/") and (part := parse_part(name))]
        last = max((part.last for part in parts), default=0)
        covered = {number for part in parts for number in range(part.first, part.last + 1)}
        has_gaps = table in ("options", "verdicts")  # not every part has options, and a merge of verdicts leaves gaps
        gaps = [] if has_gaps else sorted(set(range(1, last)) - covered)
        for number in itertools.chain(gaps, itertools.count(last + 1)):
            stored = bucket.stat(name := f"{table}/{Part(number, number).name}")
            if stored is not None:
                remote[name] = stored
            elif number > last:
                break
    _add_recorded(bucket, remote)
    return remote


def _add_recorded(bucket: Bucket, remote: dict[str, StoredObject]) -> None:
    """Request the objects that are recorded and not listed: the range of a merged part cannot be guessed.

    Every object that counts has its sum in the bucket before, and reads by name are up to date.
    """
    sums = checksums.parse_sums(bucket.read(checksums.NAME) or b"")
    recorded = {name for name, digests in sums.items() if checksums.GONE not in digests and name not in remote}

    def request(names: Iterable[str]) -> None:
        remote.update((name, stored) for name in names if (stored := bucket.stat(name)) is not None)

    paired = {name for name in recorded if name.partition("/")[0] in TABLES and parse_part(name)}
    request(sorted(recorded - paired))
    reach = 0
    for part in _sort_parts({*remote, *paired}):
        if part.last <= reach:
            continue  # a merge has replaced it
        names = [f"{table}/{part.name}" for table in TABLES]
        request(name for name in names if name in paired)
        if all(f"{table}/{part.name}" in remote for table in PAIRED):
            reach = part.last


def _sort_parts(names: Collection[str]) -> list[Part]:
    """Return the parts of tables with equal names in order, each merge before the parts inside it."""
    parts = {part for name in names if name.partition("/")[0] in TABLES and (part := parse_part(name))}
    return sorted(parts, key=lambda part: (part.first, -part.last))
