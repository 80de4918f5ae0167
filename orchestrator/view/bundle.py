"""``view --output``: all episodes of run folders as static files for any web server.

``bundle.md`` is its README. ``list.parquet`` holds what the page filters and sorts, ``episodes-*.parquet`` the film strips, and
``pictures-*.parquet`` the pictures. Row groups are small, so that an episode costs one range request; files are small too, for
servers that send whole files only.
"""

import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import polars as pl

from envs.errors import RunFolderError
from orchestrator.film_strip import Thumbnails
from orchestrator.report.html.text import policy_hash
from orchestrator.storage import safe_write
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.view.catalog import Catalog, open_unread, read_episodes
from orchestrator.view.page import SCRIPT, STYLE, render_page, to_json

FILE_EPISODES, GROUP_EPISODES = 8_192, 128
"""Number of episodes per file and per row group."""
FILE_PICTURES, GROUP_PICTURES = 2_048, 16
POLICY = "default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"


class BundleTotals(NamedTuple):
    episodes: int
    pictures: int
    bytes: int


class ColumnFiles:
    """Parquet files with one column, whose values are numbered across all of them."""

    def __init__(self, start: str, column: str, per_file: int, per_group: int) -> None:
        """``start`` is the path of the files up to their number."""
        self.start, self.column, self.per_file, self.per_group = start, column, per_file, per_group
        self.total = 0
        self.file_sizes: list[int] = []
        self._pending: list[str | bytes] = []

    def add(self, value: str | bytes) -> int:
        """Add a value and return its number."""
        self._pending.append(value)
        self.total += 1
        if len(self._pending) == self.per_file:
            self.flush()
        return self.total - 1

    def flush(self) -> None:
        """Write the values that are in no file yet."""
        if self._pending:
            path = Path(f"{self.start}-{len(self.file_sizes):04d}.parquet")
            table = pl.DataFrame({self.column: self._pending})
            table.write_parquet(path, compression_level=9, statistics=False, row_group_size=self.per_group)
            self.file_sizes.append(path.stat().st_size)
            self._pending = []


def write_bundle(
    runs: Mapping[str, Path], data: Path | None, target: Path, with_pictures: bool = True
) -> Iterator[BundleTotals]:
    """Write the bundle, and yield its totals after each file of episodes and at the end. Raises RunFolderError."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunFolderError(f"{target} already exists; name a new folder for --output")
    target.mkdir(parents=True, exist_ok=True)
    catalog = Catalog({name: read_episodes(open_unread(folder), data) for name, folder in runs.items()})
    episodes = ColumnFiles(f"{target}/episodes", "view", FILE_EPISODES, GROUP_EPISODES)
    pictures = ColumnFiles(f"{target}/pictures", "picture", FILE_PICTURES, GROUP_PICTURES)
    stored = cache(lambda folder: Thumbnails(folder if with_pictures else None, keep=pictures.add))
    for start in range(0, catalog.height, FILE_EPISODES):
        positions = range(start, min(start + FILE_EPISODES, catalog.height))
        try:
            views = list(catalog.read_views(positions, stored))
        except UNREADABLE:
            raise RunFolderError("a run has changed while it was read; write the bundle after it has ended") from None
        for view in views:
            episodes.add(to_json(view))
        yield BundleTotals(episodes.total, pictures.total, sum(episodes.file_sizes) + sum(pictures.file_sizes))
    episodes.flush()
    pictures.flush()
    listing = catalog.list_bytes()
    safe_write.write(target / "list.parquet", listing)
    safe_write.write(target / "README.md", (files(__package__) / "bundle.md").read_bytes())
    layout = {"list_bytes": len(listing), "episode_bytes": episodes.file_sizes, "picture_bytes": pictures.file_sizes}
    layout |= {"file_episodes": FILE_EPISODES, "file_pictures": FILE_PICTURES, "version": f"{zlib.crc32(listing):08x}"}
    policy = f"{POLICY}; style-src {policy_hash(STYLE)}; script-src {policy_hash(SCRIPT)}"
    bundle = {**catalog.about(), "reading": False, **layout}
    page = render_page(catalog.runs, policy, bundle=bundle)
    safe_write.write(target / "index.html", page.encode())  # last, so that an interrupted bundle has no page
    yield BundleTotals(catalog.height, pictures.total, sum(path.stat().st_size for path in target.iterdir()))
