"""A page on loopback, such as that of ``view``, served by a thread of this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from orchestrator.view.loopback import LoopbackPage, serving
from orchestrator.view.page import ViewPage
from tests.orchestrator.view.visitor import Visitor


class Reader(Visitor):
    """A visitor that reads JSON."""

    def read(self, path: str, **parameters: object) -> dict:
        """Return the JSON of a path below the token."""
        assert self.ask("GET", f"{self.path}{path}?{urlencode(parameters)}") == 200
        return json.loads(self.bodies[-1])


def served(runs: dict[str, Path], data: Path | None = None) -> AbstractContextManager[str]:
    """Serve the page of ``view`` during a block and yield its address, when all that is stored has been read."""
    page = ViewPage(runs, data)
    return serve_page(page, lambda: page.is_complete)


@contextmanager
def serve_page(page: LoopbackPage, is_complete: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """Serve a page during the block and yield its address."""
    addresses, stop, ready = list[str](), threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(page) as address:
            watching = asyncio.create_task(page.watch())
            while not is_complete():
                await asyncio.sleep(0.01)
            addresses.append(address)
            ready.set()
            await asyncio.to_thread(stop.wait)
            watching.cancel()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield addresses[0]
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()
