"""The page on all episodes of some run folders: its list, its film strips, and the files that make it.

All texts reach the page as JSON and become text nodes there; what it sends are versions, positions, and a text to search for.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import Environment, StrictUndefined

from orchestrator.report.html.text import visible
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import folder_answers
from orchestrator.report.tables.parts import TEXTS
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.view.catalog import MAPPED, Catalog, open_unread, read_episodes
from orchestrator.view.loopback import LoopbackPage, page_headers, parse_number

REFRESH_S, REST_FACTOR = 1.0, 10
"""The pause between two refreshes from the folders: at least so many seconds, and so many times what a refresh took."""
LONGEST = 300
"""Most characters of a text to search for."""


def _text(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


STYLE = _text("orchestrator.report.html", "report.css") + _text("orchestrator.view", "view.css")
SCRIPTS = ("dom.js", "episode_view.js", "vendor/hyparquet.min.js", "source.js", "episodes.js", "list.js", "view.js")
SCRIPT = '"use strict";\n(() => {\n' + "\n".join(_text("orchestrator.view", name) for name in SCRIPTS) + "})();\n"
KIND_MEANINGS = TEXTS["endings"]["columns"] | {
    MAPPED: "A decision map or an operating curve: every picture, or every question, was asked."
}
TEMPLATE = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
    _text("orchestrator.view", "view.html.j2")
)
to_json = partial(json.dumps, separators=(",", ":"), allow_nan=False)
json_response = partial(web.json_response, dumps=to_json)


class ViewPage(LoopbackPage):
    def __init__(self, runs: Mapping[str, Path], data: Path | None = None) -> None:
        """``data`` is the benchmark folder if it has moved. Raises RunFolderError for a folder without a run."""
        handlers = {
            "": self._show, "state": self._state, "list": self._list, "found": self._found, "episode": self._episode,
        }  # fmt: skip
        routes = [web.get("/{token}/" + path, handler) for path, handler in handlers.items()]
        super().__init__(routes, page_headers(STYLE, SCRIPT, "connect-src 'self'; form-action 'none'"), 1024)
        self.data, self.catalog = data, Catalog({name: open_unread(folder) for name, folder in runs.items()})
        self.previous = self.catalog
        """The catalog of pages that have not noticed the newest one."""
        self.is_complete = False
        """False while the runs are read for the first time."""
        self._files: list[tuple[str, int]] = []

    def refresh(self) -> None:
        """Read the runs again if a file of theirs has changed."""
        files = sorted(file for run in self.catalog.runs.values() for file in _list_files(run.folder))
        if files != self._files:
            self._files = files
            runs = {name: read_episodes(run, self.data) for name, run in self.catalog.runs.items()}
            newest = Catalog(runs, self.catalog.version + 1)
            self.catalog, self.previous = newest, self.catalog
        self.is_complete = True

    async def watch(self) -> None:
        """Refresh forever, at most a tenth of the time."""
        while True:
            began = time.monotonic()
            await asyncio.to_thread(self.refresh)
            await asyncio.sleep(max(REFRESH_S, REST_FACTOR * (time.monotonic() - began)))

    async def _show(self, request: web.Request) -> web.Response:
        return web.Response(text=render_page(self.catalog.runs), content_type="text/html", charset="utf-8")

    async def _state(self, request: web.Request) -> web.Response:
        return json_response({**self.catalog.about(), "reading": not self.is_complete})

    async def _list(self, request: web.Request) -> web.Response:
        body = await asyncio.to_thread(self._asked_catalog(request).list_bytes)
        return web.Response(body=body, content_type="application/octet-stream")

    async def _found(self, request: web.Request) -> web.Response:
        """Send the positions of the episodes with a reply that contains a text, as 32-bit numbers."""
        text = request.query.get("text", "")[:LONGEST]
        positions = await asyncio.to_thread(self._asked_catalog(request).replies_with, text)
        return web.Response(body=positions.astype("<u4").tobytes(), content_type="application/octet-stream")

    async def _episode(self, request: web.Request) -> web.Response:
        catalog = self._asked_catalog(request)
        position = parse_number(request.query.get("at", ""))
        if position >= catalog.height:
            raise web.HTTPNotFound
        try:
            return json_response(await asyncio.to_thread(catalog.read_view, position))
        except UNREADABLE:  # the page asks again with the next version
            raise web.HTTPNotFound from None

    def _asked_catalog(self, request: web.Request) -> Catalog:
        """Return the catalog that a request is about; raises HTTPNotFound for one that has gone."""
        version = parse_number(request.query.get("version", ""))
        for catalog in (self.catalog, self.previous):
            if catalog.version == version:
                return catalog
        raise web.HTTPNotFound


def render_page(runs: Mapping[str, RunData], policy: str = "", **more: Any) -> str:
    """Return the page of some runs, headed by the sentences on whether models ask; ``more`` reaches its script."""
    answers = [text for run in runs.values() for text in folder_answers(run.folder)]
    title = ", ".join(map(visible, runs))
    content = {"kinds": KIND_MEANINGS, **more}
    return TEMPLATE.render(style=STYLE, script=SCRIPT, title=title, answers=answers, policy=policy, content=content)


def _list_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the parts and the plan of a run folder, with the nanosecond of their last change."""
    for pattern in ("episodes/*.parquet", "turns/*.parquet", "verdicts/*.parquet", "plan.*"):
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):  # replaced meanwhile
                yield str(path), path.stat().st_mtime_ns
