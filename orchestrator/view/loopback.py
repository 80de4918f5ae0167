"""A page for this machine only, with a token in its address; it checks every request and sets the headers.

Other hosts (DNS rebinding), origins (forms and scripts of other sites) and tokens are refused.
"""

import asyncio
import logging
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from orchestrator.report.html.text import policy_hash
from sweeps.sweep_file import SweepError

LOOPBACK = "127.0.0.1"
CLOSING_S = 2.0
"""Seconds that open responses get when the program ends."""


class LoopbackPage:
    """A page with its token; a subclass defines its routes, which begin with ``/{token}/``."""

    def __init__(self, routes: list[web.RouteDef], headers: dict[str, str], max_body_bytes: int) -> None:
        self.routes, self.headers, self.max_body_bytes = routes, headers, max_body_bytes
        self.token = secrets.token_urlsafe(24)
        self.hosts: frozenset[str] = frozenset()
        """Allowed Host headers, port included; other names are a DNS rebinding attack."""

    def application(self) -> web.Application:
        """Return the application: the routes behind the guard."""
        application = web.Application(middlewares=[self._guard], client_max_size=self.max_body_bytes)
        application.add_routes(self.routes)
        application.on_response_prepare.append(self._add_headers)
        return application

    async def watch(self) -> None:
        """Do what the page needs while it is served."""
        await asyncio.Event().wait()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other hosts, origins and tokens."""
        host, token = request.headers.get("Host"), request.path.partition("/")[2].partition("/")[0]
        own = f"http://{host}"
        if host not in self.hosts or request.headers.get("Origin", own if request.method == "GET" else None) != own:
            return web.Response(status=403, text="refused\n")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return web.Response(status=404, text="refused\n")
        return await handler(request)

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self.headers)


async def serve_until_stopped(page: LoopbackPage, port: int) -> None:
    """Serve the page until Ctrl-C or SIGTERM, and print its address; raises SweepError if the port is taken."""
    async with serving(page, port) as address:
        print(f"open {address} in a browser on this machine; Ctrl-C stops", flush=True)
        watching = asyncio.create_task(page.watch())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, watching.cancel)
        with suppress(asyncio.CancelledError):
            await watching


@asynccontextmanager
async def serving(page: LoopbackPage, port: int = 0) -> AsyncIterator[str]:
    """Serve the page on loopback during the block and provide its address; raises SweepError if the port is taken."""
    log = logging.getLogger(f"{__name__}.requests")
    log.addFilter(_is_worth_logging)
    runner = web.AppRunner(page.application(), access_log=None, logger=log, shutdown_timeout=CLOSING_S)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, LOOPBACK, port), port)
        number = runner.addresses[0][1]
        page.hosts = frozenset(f"{name}:{number}" for name in (LOOPBACK, "localhost"))
        yield f"http://{LOOPBACK}:{number}/{page.token}/"
    finally:
        await runner.cleanup()


def page_headers(style: str, script: str, policy: str) -> dict[str, str]:
    """Return the headers of every response: only this style and script run, and ``policy`` says what else is allowed.

    Under a stricter referrer policy, forms send the origin ``null``.
    """
    return {
        "Content-Security-Policy": f"default-src 'none'; img-src 'self' data:; {policy}; base-uri 'none'; "
        f"frame-ancestors 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def parse_number(text: str) -> int:
    """Return a number of a request; raises HTTPBadRequest for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise web.HTTPBadRequest
    return int(text)


async def _listen(site: web.TCPSite, port: int) -> None:
    try:
        await site.start()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SweepError(f"port {port} is not available ({reason}); type another --port, or leave it out") from None


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for requests and bodies that are not HTTP: the answer is 400, and a traceback would say nothing more."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError)
