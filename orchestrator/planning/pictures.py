"""Hashes of the pictures that episodes may show, stored in the run folder because episode keys do not cover pictures.

``pictures.parquet`` has one row per picture. A picture that has changed between two scans never gets a hash again, because
episodes may have shown either version.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import polars as pl

from actors.playing.prompts import examples
from envs import regular
from envs.check import reachable_pictures
from envs.render import LARGEST_FILE
from envs.types import Sample
from orchestrator.datasets.sources import parse_address
from orchestrator.planning.plan import Plan
from orchestrator.storage import checksums
from orchestrator.storage.schemas import UNREADABLE
from sweeps.spec import Cell, Sweep

FILE = "pictures.parquet"
THREADS = 8
"""Number of files that are read at the same time."""
CHUNK = 200
"""Number of files between two checks of the stop event."""
CHANGED = "changed"
"""Stands for the hash of a picture whose content has changed between two scans."""

log = logging.getLogger(__name__)


class PictureFile(NamedTuple):
    """A picture file at its last scan; an unreadable file has zeros and an empty hash."""

    path: str
    """Relative to the data folder."""
    size: int
    modified: int
    """Time of the last change of the content, in nanoseconds."""
    changed: int
    """Time of the last change of the file's status, in nanoseconds."""
    sum: str
    """BLAKE2b of the content, 32 hex digits; or ``CHANGED``."""

    @property
    def state(self) -> tuple[int, int, int]:
        """Return the fields that tell, without reading the file, that it is unchanged."""
        return self.size, self.modified, self.changed


_SCHEMA = pl.Schema({name: pl.String if name in ("path", "sum") else pl.Int64 for name in PictureFile._fields})


class ShownPictures:
    """The pictures that each episode of a plan may show to a model; built-in policies see none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._example_cache: dict[tuple[str, int, str, bool], frozenset[str]] = {}

    @staticmethod
    def uses_pictures(cell: Cell) -> bool:
        """Return True unless the cell's model is a built-in policy."""
        return cell.model.backend != "builtin"

    def all_paths(self) -> Iterator[str]:
        """Yield the path of every picture of the plan's episodes, each once."""
        yielded = set[str]()
        cells = filter(self.uses_pictures, self.plan.cells)
        cell_per_kind = {(c.scenario, c.protocol, c.condition.name, c.model.small_examples): c for c in cells}
        for cell in cell_per_kind.values():  # cells that differ only in the model show the same pictures
            for sample in self.plan.cell_samples(cell):
                new = self.paths(cell, sample) - yielded
                yielded |= new
                yield from sorted(new)

    def paths(self, cell: Cell, sample: Sample) -> frozenset[str]:
        """Return the paths of one episode's pictures, including solved examples."""
        if not self.uses_pictures(cell):
            return frozenset()
        return self._sample_paths(cell, sample) | self._example_paths(cell, sample)

    def _sample_paths(self, cell: Cell, sample: Sample) -> frozenset[str]:
        if cell.condition.picture == "none":
            return frozenset()
        if cell.condition.picture == "swapped":
            return frozenset() if sample.swapped is None else frozenset({sample.swapped.image.path})
        return frozenset(ref.path for ref in reachable_pictures(sample))

    def _example_paths(self, cell: Cell, sample: Sample) -> frozenset[str]:
        if not cell.condition.shots:
            return frozenset()
        small = cell.model.small_examples
        example_key = (sample.scenario, sample.id, cell.condition.name, small)
        if example_key not in self._example_cache:
            messages = examples(sample, self.plan.pools[sample.scenario], cell.condition, self.plan.seed, small)
            self._example_cache[example_key] = frozenset(ref.path for message in messages for ref in message.images)
        return self._example_cache[example_key]


def read_pictures(folder: Path) -> dict[str, PictureFile]:
    """Return path -> recorded picture of a run folder; empty if the file is absent or damaged."""
    try:
        rows = pl.read_parquet(checksums.read_verified(folder / FILE)).select(PictureFile._fields).iter_rows()
        return {row[0]: PictureFile(*row) for row in rows}
    except UNREADABLE:
        return {}


def scan_pictures(data: Path, paths: Iterable[str], previous: Mapping[str, PictureFile]) -> Iterator[PictureFile]:
    """Yield the current state of each picture; a file that is unchanged since ``previous`` (path -> picture) is not read."""
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(lambda path: _scan_picture(data, path, previous.get(path)), paths)


def find_unchanged(sweep: Sweep, old: Sweep, plan: Plan, folder: Path, ordinals: Sequence[int]) -> list[int]:
    """Return the ordinals of episodes whose pictures are all known to be unchanged since the run of ``old`` in ``folder``."""
    location, shown = parse_address(sweep.data), ShownPictures(plan)
    if location is not None and location.scheme == "hf" and location.fixed and sweep.data == old.data:
        return list(ordinals)  # both runs used the same commit, which never changes
    paths = {
        ordinal: shown.paths(plan.cells[index], sample)
        for ordinal in ordinals
        for index, sample in [plan.task(ordinal)]
    }
    earlier = read_pictures(folder) if location is None else {}
    recorded = sorted(frozenset[str]().union(*paths.values()) & earlier.keys())
    now = scan_pictures(Path(sweep.data), recorded, earlier)
    unchanged = {picture.path for picture in now if picture.sum == earlier[picture.path].sum != CHANGED}
    return [ordinal for ordinal, needed in paths.items() if needed <= unchanged]


def record_pictures(folder: Path, data: Path, paths: Iterable[str], stop: Event) -> None:
    """Scan these pictures until ``stop`` is set, and update ``pictures.parquet``; raises OSError."""
    before = read_pictures(folder)
    pictures, remaining = dict(before), iter(paths)
    while not stop.is_set() and (chunk := list(islice(remaining, CHUNK))):
        for picture in scan_pictures(data, chunk, before):
            old = before.get(picture.path)
            pictures[picture.path] = picture if old is None or old.sum == picture.sum else picture._replace(sum=CHANGED)
    if changed := [path for path in pictures if pictures[path].sum == CHANGED and before[path].sum != CHANGED]:
        log.warning("%d pictures have changed since they were first played, such as %s", len(changed), changed[0])
    if pictures != before:
        rows = pl.DataFrame([*pictures.values()], schema=_SCHEMA, orient="row")
        checksums.write(folder / FILE, rows, compression="zstd")


@contextmanager
def recording_pictures(folder: Path, data: Path, plan: Plan) -> Iterator[Event]:
    """Record a plan's pictures in a thread while the block runs; at its end, wait for the rest.

    To skip the rest, set the event that is yielded.
    """
    stop = Event()

    def record() -> None:
        try:
            record_pictures(folder, data, ShownPictures(plan).all_paths(), stop)
        except (OSError, ValueError) as problem:
            # a full disk, or a plan that no worker can play; the sweep itself reports both
            log.warning("the hashes of the pictures are not saved: %s", problem)

    thread = Thread(target=record, name="picture-sums", daemon=True)
    thread.start()
    try:
        yield stop
    except BaseException:
        stop.set()
        raise
    finally:
        thread.join()


def _scan_picture(data: Path, path: str, previous: PictureFile | None) -> PictureFile:
    try:
        status = (data / path).stat()
        state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if previous is not None and previous.state == state:
            return previous
        content = regular.read_bytes(data / path, LARGEST_FILE)
    except OSError:
        return PictureFile(path, 0, 0, 0, "")
    return PictureFile(path, *state, blake2b(content, digest_size=16).hexdigest())
