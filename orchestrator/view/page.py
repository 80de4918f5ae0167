"""The page on all episodes of some run folders: its list, its film strips, and the files that make it.

All texts reach the page as JSON and become text nodes there; names and filters that it sends are only compared with stored ones.
"""

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from aiohttp import web
from pydantic import ValidationError

from orchestrator.human.loopback import LoopbackPage, page_headers, read_form
from orchestrator.report.html.text import inert, visible
from orchestrator.storage.option_labels import OptionLabel, append_labels, read_labels
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.view import query as queries
from orchestrator.view.assets import CONTENT, MOST_ROWS, SERVED_SCRIPT, STYLE, TEMPLATE
from orchestrator.view.catalog import Catalog, hash_key
from orchestrator.view.episode import RunSamples, view_episodes
from orchestrator.view.query import Query
from orchestrator.view.run_index import RunIndex

REFRESH_S = 1.0
"""Seconds between two refreshes from the folders."""
LISTS = 6
"""Number of filtered lists in the cache."""
TRIES = 3
"""Attempts to read an episode while a run merges its parts."""
MAX_BODY_BYTES = 16_384


class EpisodeName(NamedTuple):
    """The name of an episode: a run and the hash of its key; without a known run, the first run with the key is meant."""

    run: str
    key_hash: int


class ViewPage(LoopbackPage):
    """The page and the handlers of its requests."""

    def __init__(self, runs: Mapping[str, Path], data: Path | None = None, labeler: str = "") -> None:
        """Accept labels if ``labeler`` names a person."""
        routes = [
            web.get("/{token}/", self._show),
            web.get("/{token}/rows", self._rows),
            web.get("/{token}/episode", self._episode),
            web.get("/{token}/state", self._state),
            web.post("/{token}/label", self._label),
        ]
        super().__init__(
            routes, page_headers(STYLE, SERVED_SCRIPT, "connect-src 'self'; form-action 'none'"), MAX_BODY_BYTES
        )
        self.indexes = {name: RunIndex(folder) for name, folder in runs.items()}
        self.data, self.labeler = data, labeler
        self.samples: dict[str, RunSamples] = {}
        self.catalog = Catalog(self.indexes, 0)
        self.is_complete = False
        """False while parts that were stored before the start are still being read."""
        self._lists: OrderedDict[tuple[Query, int], tuple[np.ndarray, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read new parts in steps of 1, 2, 4 and more, and publish a catalog after each, so that the page shows them early."""
        step, more = 1, True
        while more:
            more = any([index.refresh(step) for index in self.indexes.values()])
            version = sum(index.version for index in self.indexes.values())
            if version != self.catalog.version:
                self.catalog = Catalog(self.indexes, version)
            step *= 2
        self.is_complete = True

    async def watch(self) -> None:
        """Refresh forever, and load the samples once."""
        loading = asyncio.create_task(asyncio.to_thread(self._load_samples))
        while True:
            await asyncio.to_thread(self.refresh)
            await asyncio.sleep(REFRESH_S)
            if loading.done():
                loading.result()

    def _load_samples(self) -> None:
        with self._lock:
            for name, index in self.indexes.items():
                if name not in self.samples:
                    self.samples[name] = RunSamples(index.folder, self.data)

    async def _show(self, request: web.Request) -> web.Response:
        runs = ", ".join(visible(name) for name in self.indexes)
        text = TEMPLATE.render(
            style=STYLE,
            script=SERVED_SCRIPT,
            title=runs,
            policy="",
            content=inert({**CONTENT, "labeler": self.labeler}),
        )
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def _state(self, request: web.Request) -> web.Response:
        return _json(self._state_fields())

    def _state_fields(self) -> dict[str, Any]:
        return {
            "version": self.catalog.version,
            "total": self.catalog.height,
            "planned": sum(index.planned for index in self.indexes.values()),
            "reading": not self.is_complete,
        }

    async def _rows(self, request: web.Request) -> web.Response:
        start, query = _number(request, "start"), Query.parse(request.query)
        episode, step = _episode_name(request, "episode"), request.query.get("step", "")
        return _json(await asyncio.to_thread(self._list, query, start, episode, step))

    def _list(self, query: Query, start: int, episode: EpisodeName | None, step: str) -> dict[str, Any]:
        """Return a page of the list: from ``start`` on, or with an episode, or with the next failure after it (``step``)."""
        catalog = self.catalog
        positions, counts = self._filtered(catalog, query)
        row = None
        if episode is not None:
            position = catalog.find_episode(*episode)
            matching = np.flatnonzero(positions == (-1 if position is None else position))
            row = int(matching[0]) if len(matching) else None
            row = _next_failure(catalog, positions, row, step) if step else row
            start = start if row is None else row // MOST_ROWS * MOST_ROWS
        rows = [queries.describe(catalog, position) for position in positions[start : start + MOST_ROWS].tolist()]
        return {
            **self._state_fields(), "matches": len(positions), "start": start, "row": row, "rows": rows, "counts": counts,
        }  # fmt: skip

    def _filtered(self, catalog: Catalog, query: Query) -> tuple[np.ndarray, Any]:
        name = (query, catalog.version)
        with self._lock:
            if name in self._lists:
                self._lists.move_to_end(name)
                return self._lists[name]
        positions = queries.order(catalog, query, queries.mask(catalog, query)).astype(np.uint32)
        filtered = positions, queries.counts(catalog, query)
        with self._lock:
            self._lists[name] = filtered
            while len(self._lists) > LISTS:
                self._lists.popitem(last=False)
        return filtered

    async def _episode(self, request: web.Request) -> web.Response:
        names = [_episode_name(request, name) for name in ("episode", "beside")]
        view = await asyncio.to_thread(self._view, [name for name in names if name is not None])
        if view is None:
            raise web.HTTPNotFound
        return _json(view)

    def _view(self, names: list[EpisodeName]) -> dict[str, Any] | None:
        """Return the film strips; None if an episode is not stored."""
        self._load_samples()
        for _ in range(TRIES):
            catalog = self.catalog
            positions = [catalog.find_episode(*name) for name in names]
            known = [position for position in positions if position is not None]
            if not known or len(known) < len(positions):
                return None
            try:
                views = view_episodes(catalog, self.samples, known)
            except UNREADABLE:  # a merge has just replaced the part
                self.refresh()
                continue
            neighbors = [queries.describe(catalog, other) for other in catalog.neighbors(known[0])]
            if self.labeler:
                folder, key = self.indexes[views["episodes"][0]["run"]].folder, views["episodes"][0]["key"]
                label = read_labels(folder).get((key, self.labeler))
                views["label"] = None if label is None else label.model_dump()
            return {**views, "ids": [queries.describe(catalog, at)["id"] for at in known], "neighbors": neighbors}
        return None

    async def _label(self, request: web.Request) -> web.Response:
        """Store a label by ``labeler``."""
        if not self.labeler:
            raise web.HTTPForbidden
        form = await read_form(request)
        fields = {name: form.get(name, "") for name in ("run", "key", "label", "note", "unsure")}
        index = self.indexes.get(fields["run"])
        if index is None or self.catalog.find_episode(fields["run"], hash_key(fields["key"])) is None:
            raise web.HTTPNotFound
        try:
            label = OptionLabel(
                key=fields["key"], labeler=self.labeler, label=fields["label"], note=fields["note"],
                unsure=fields["unsure"] == "true",
            )  # fmt: skip
        except ValidationError:
            raise web.HTTPBadRequest from None
        await asyncio.to_thread(append_labels, index.folder, [label])
        return _json(label.model_dump())


def _episode_name(request: web.Request, name: str) -> EpisodeName | None:
    """Return the run and the key's hash of an episode that is named by its key (``NAME``) or its id (``NAME_id``)."""
    run, key, number = (request.query.get(name + end, "") for end in ("_run", "", "_id"))
    if number:
        return EpisodeName(run, _parse_number(number, 20))
    return EpisodeName(run, hash_key(key)) if key else None


def _next_failure(catalog: Catalog, positions: np.ndarray, row: int | None, step: str) -> int | None:
    """Return the next or previous row that is not right; None without one."""
    failures = np.flatnonzero(catalog.columns["right"][positions] == 0)
    if step == "next":
        rows = failures[failures > (-1 if row is None else row)]
        return int(rows[0]) if len(rows) else None
    rows = failures[failures < (len(positions) if row is None else row)]
    return int(rows[-1]) if len(rows) else None


def _number(request: web.Request, name: str) -> int:
    return _parse_number(request.query.get(name, "0"), 9)


def _parse_number(text: str, digits: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= digits and int(text) < 1 << 64):
        raise web.HTTPBadRequest
    return int(text)


def _json(value: Any) -> web.Response:
    return web.Response(text=json.dumps(value, separators=(",", ":"), allow_nan=False), content_type="application/json")
