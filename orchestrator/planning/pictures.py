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


_SCHEMA = pl.Schema({name: pl.String if name in ("path", "sum") else pl.Int64 for name in PictureFile._fields})


def shows_pictures(cell: Cell) -> bool:
    """Return True unless the cell's model is a built-in policy, which sees none."""
    return cell.model.backend != "builtin"


def shown_paths(plan: Plan, cell: Cell, sample: Sample) -> frozenset[str]:
    """Return the paths of the pictures that an episode may show to a model, solved examples included."""
    if not shows_pictures(cell):
        return frozenset()
    shots = examples(sample, plan.pools[cell.scenario], cell.condition, plan.seed, cell.model.small_examples)
    refs = [ref for message in shots for ref in message.images]
    if cell.condition.picture == "swapped":
        refs += [sample.swapped.image] if sample.swapped else []
    elif cell.condition.picture != "none":
        refs += reachable_pictures(sample)
    return frozenset(ref.path for ref in refs)


def all_paths(plan: Plan) -> Iterator[str]:
    """Yield the path of every picture of the plan's episodes, each once."""
    yielded = set[str]()
    for cell in {_kind(cell): cell for cell in plan.cells}.values():
        for sample in plan.cell_samples(cell):
            new = shown_paths(plan, cell, sample) - yielded
            yielded |= new
            yield from sorted(new)


def _kind(cell: Cell) -> tuple[object, ...]:
    """Return what decides, with the sample, which pictures an episode shows; most models share it."""
    return cell.scenario, cell.protocol, cell.condition.name, cell.model.small_examples, shows_pictures(cell)


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
    location = parse_address(sweep.data)
    if location is not None and location.scheme == "hf" and location.fixed and sweep.data == old.data:
        return list(ordinals)  # both runs used the same commit, which never changes
    shown: dict[object, frozenset[str]] = {}
    paths: dict[int, frozenset[str]] = {}
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        episode = (_kind(plan.cells[index]), sample.id)
        if episode not in shown:
            shown[episode] = shown_paths(plan, plan.cells[index], sample)
        paths[ordinal] = shown[episode]
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
        checksums.write(folder / FILE, rows)


@contextmanager
def recording_pictures(folder: Path, data: str, plan: Plan, plays: bool) -> Iterator[Event]:
    """Record the pictures of a local data folder that the planned models see, in a thread while the block runs.

    At its end, wait for the rest; to skip the rest, set the event that is yielded. If the attempt ``plays`` no episode, pictures
    that are recorded already are not scanned again.
    """
    stop = Event()
    is_recorded = not plays and (folder / FILE).exists()
    if is_recorded or parse_address(data) is not None or not any(map(shows_pictures, plan.cells)):
        yield stop
        return

    def record() -> None:
        try:
            record_pictures(folder, Path(data), all_paths(plan), stop)
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
        if previous is not None and previous[1:4] == state:
            return previous
        content = regular.read_bytes(data / path, LARGEST_FILE)
    except OSError:
        return PictureFile(path, 0, 0, 0, "")
    return PictureFile(path, *state, blake2b(content, digest_size=16).hexdigest())
