"""The pictures that episodes may show, by content: keys of episodes do not know it, so a run folder keeps their sums.

``pictures.parquet`` names a picture once. One whose content changed while the run was played has no sum for good: what
episodes were shown is not known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import polars as pl

from actors.prompts import examples
from envs import regular
from envs.check import reachable
from envs.render import LARGEST_FILE
from envs.types import Sample
from orchestrator.planning.plan import Plan
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import UNREADABLE
from sweeps.spec import Cell

FILE = "pictures.parquet"
THREADS = 8
"""Files that are read at the same time."""
CHUNK = 200
"""Files between two looks at whether to stop."""
UNKNOWN = "changed"
"""The sum of a picture whose content changed while the run was played."""

log = logging.getLogger(__name__)


class Picture(NamedTuple):
    """A file as it was last looked at; all zero and without a sum where it cannot be read."""

    path: str
    """Relative to the data folder."""
    size: int
    modified: int
    """Nanoseconds, as ``changed``: the times by which an unchanged file is known without reading it."""
    changed: int
    sum: str
    """BLAKE2b of the content, 32 hex digits."""

    @property
    def state(self) -> tuple[int, int, int]:
        """What a file that nobody touched keeps."""
        return self.size, self.modified, self.changed


Sums = Mapping[str, Picture]
"""Path -> the picture."""


class ShownPictures:
    """Which pictures each episode of a plan may show to a model; policies see none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._own: dict[tuple[str, int], frozenset[str]] = {}
        self._examples: dict[tuple[str, int, str, bool], frozenset[str]] = {}

    def of(self, cell: Cell, sample: Sample) -> frozenset[str]:
        """Paths of the pictures of one episode, its solved examples' included."""
        if not self.sees(cell):
            return frozenset()
        return self._asked_about(cell, sample) | self._shots(cell, sample)

    def _asked_about(self, cell: Cell, sample: Sample) -> frozenset[str]:
        if cell.condition.picture == "none":
            return frozenset()
        if cell.condition.picture == "swapped":
            return frozenset() if sample.swapped is None else frozenset({sample.swapped.image.path})
        place = (sample.scenario, sample.id)
        if place not in self._own:
            self._own[place] = frozenset(ref.path for ref in reachable(sample))
        return self._own[place]

    @staticmethod
    def sees(cell: Cell) -> bool:
        """Whether what plays the cell looks at pictures."""
        return cell.model.backend != "builtin"

    def each(self) -> Iterator[str]:
        """The pictures of all episodes, each once."""
        seen = set[str]()
        kinds = {
            (c.scenario, c.protocol, c.condition.name, c.model.small_examples): c
            for c in self.plan.cells
            if self.sees(c)
        }
        for cell in kinds.values():
            for sample in self.plan.drawn(cell):
                new = self.of(cell, sample) - seen
                seen |= new
                yield from sorted(new)

    def _shots(self, cell: Cell, sample: Sample) -> frozenset[str]:
        if not cell.condition.shots:
            return frozenset()
        small = cell.model.small_examples
        place = (sample.scenario, sample.id, cell.condition.name, small)
        if place not in self._examples:
            told = examples(sample, self.plan.pools[sample.scenario], cell.condition, self.plan.seed, small)
            self._examples[place] = frozenset(ref.path for message in told for ref in message.images)
        return self._examples[place]


def stored(folder: Path) -> dict[str, Picture]:
    """The pictures that a run folder has sums of; none where the file is absent or damaged."""
    try:
        rows = pl.read_parquet(checksums.content(folder / FILE)).select(Picture._fields).iter_rows()
        return {row[0]: Picture(*row) for row in rows}
    except UNREADABLE:
        return {}


def looked_at(data: Path, paths: Iterable[str], known: Sums) -> Iterator[Picture]:
    """Each picture as it is now; of ``known`` ones that nobody has touched, the content is not read."""
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(lambda path: _looked_at(data, path, known.get(path)), paths)


def record(folder: Path, data: Path, paths: Iterable[str], stop: Event) -> None:
    """Bring ``pictures.parquet`` up to date with these pictures, as far as it comes before ``stop``. Raises OSError."""
    before = stored(folder)
    now, wanted = dict(before), iter(paths)
    while not stop.is_set() and (chunk := list(islice(wanted, CHUNK))):
        for picture in looked_at(data, chunk, before):
            old = before.get(picture.path)
            now[picture.path] = picture if old is None or old.sum == picture.sum else picture._replace(sum=UNKNOWN)
    if changed := [path for path in now if now[path].sum == UNKNOWN and before[path].sum != UNKNOWN]:
        log.warning("%d pictures have changed since they were first played, %s first", len(changed), changed[0])
    if now != before:
        rows = pl.DataFrame([*now.values()], schema=_SCHEMA, orient="row")
        checksums.write_table(folder / FILE, rows, compression="zstd")


class Recorder:
    """Writes down, in a thread beside a sweep, what its pictures are."""

    def __init__(self, plan: Plan, data: Path, folder: Path) -> None:
        """``data`` is the benchmark's folder on this machine, ``folder`` the run's."""
        self._stop = Event()
        self._thread = Thread(target=self._work, args=(plan, data, folder), name="picture-sums", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def finish(self, hurry: bool) -> None:
        """Wait until all are written down; in a ``hurry`` for those alone that are being read."""
        if hurry:
            self._stop.set()
        self._thread.join()

    def _work(self, plan: Plan, data: Path, folder: Path) -> None:
        try:
            record(folder, data, ShownPictures(plan).each(), self._stop)
        except (
            OSError,
            ValueError,
        ) as problem:  # a full disk, or a plan that no worker can play: the sweep says so itself
            log.warning("the sums of the pictures are not written down: %s", problem)


_SCHEMA = pl.Schema({name: pl.String if name in ("path", "sum") else pl.Int64 for name in Picture._fields})


def _looked_at(data: Path, path: str, known: Picture | None) -> Picture:
    try:
        found = (data / path).stat()
        state = (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if known is not None and known.state == state:
            return known
        content = regular.content(data / path, LARGEST_FILE)
    except OSError:
        return Picture(path, 0, 0, 0, "")
    return Picture(path, *state, blake2b(content, digest_size=16).hexdigest())
