"""The page on which a person plays: one question at a time, for who has the token in its address, on this machine alone.

No response tells more of the game than the question, its options and how many episodes are done: no answer, no id, no file.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from aiohttp import web
from jinja2 import Environment, StrictUndefined

from actors.text.printable import spell_invisible
from orchestrator.human.person import OpenQuestion, Person
from orchestrator.report.html.text import policy_hash
from sweeps.sweep_file import SweepError

LOOPBACK = "127.0.0.1"
MOST_BYTES = 1024
"""Bytes of an answer that are read: two numbers."""
CLOSING_S = 2.0
"""Seconds that a response may take once the program ends."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PlayPage:
    """What the page shows: the person's open question, and how far the sitting is."""

    def __init__(self, person: Person, done: int, total: int) -> None:
        """``done`` of ``total`` episodes are stored."""
        self.person, self.done, self.total = person, done, total
        self.token = secrets.token_urlsafe(24)
        self.hosts: frozenset[str] = frozenset()
        """What a request may call this server, port included; another name is a page elsewhere that was pointed here."""

    def application(self) -> web.Application:
        """Three addresses below the token: the page, a picture, an answer."""
        application = web.Application(middlewares=[self._guarded], client_max_size=MOST_BYTES)
        application.add_routes(
            [
                web.get("/{token}/", self._show),
                web.get("/{token}/picture/{number:[0-9]{1,9}}", self._picture),
                web.post("/{token}/answer", self._answer),
            ]
        )
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other hosts, other origins and other tokens, and send the headers that every response has."""
        if (reason := self._refused(request)) is not None:
            response: web.StreamResponse = web.Response(status=reason, text="refused\n")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as problem:
                response = web.Response(status=problem.status, text=f"{problem.reason}\n", headers=_location(problem))
        response.headers.update(HEADERS)
        return response

    def _refused(self, request: web.Request) -> int | None:
        """The status of a refusal, or None for a request that may pass."""
        if request.headers.get("Host") not in self.hosts:
            return 403
        own = f"http://{request.headers['Host']}"
        if request.headers.get("Origin", own if request.method == "GET" else None) != own:
            return 403
        token = request.path.split("/")[1]
        return None if secrets.compare_digest(token.encode(), self.token.encode()) else 404

    async def _show(self, request: web.Request) -> web.Response:
        return self._rendered(await self.person.after(0), "late" in request.query)

    async def _picture(self, request: web.Request) -> web.Response:
        content = self.person.pictures.get(int(request.match_info["number"]))
        if content is None:
            raise web.HTTPNotFound
        return web.Response(body=content, content_type="image/png")

    async def _answer(self, request: web.Request) -> web.Response:
        """Take an answer; then the next question. One to a question that is no longer open changes nothing, and is told so."""
        form = await request.post()
        try:
            number, choice = int(str(form["question"])), int(str(form["choice"]))
        except (KeyError, ValueError):
            raise web.HTTPBadRequest from None
        taken = self.person.answer(number, choice)
        following = await self.person.after(number) if taken else None
        if taken and following is None:
            return self._rendered(None)  # the program ends: there is nobody to ask for another page
        raise web.HTTPSeeOther(f"/{self.token}/" + ("" if taken else "?late"))

    def _rendered(self, question: OpenQuestion | None, late: bool = False) -> web.Response:
        text = TEMPLATE.render(
            style=STYLE, script=SCRIPT, question=question, late=late, done=self.done, total=self.total
        )
        return web.Response(text=text, content_type="text/html", charset="utf-8")


@asynccontextmanager
async def serving(page: PlayPage, port: int = 0) -> AsyncIterator[str]:
    """Serve the page on this machine's loopback until the block ends; gives its address.

    Raises SweepError where the port cannot be had.
    """
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=CLOSING_S)
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, LOOPBACK, port), port)
        number = runner.addresses[0][1]
        page.hosts = frozenset(f"{name}:{number}" for name in (LOOPBACK, "localhost"))
        yield f"http://{LOOPBACK}:{number}/{page.token}/"
    finally:
        await runner.cleanup()


async def _listen(site: web.TCPSite, port: int) -> None:
    try:
        await site.start()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SweepError(f"port {port} cannot be had ({reason}); type another --port, or leave it out") from None


def _location(problem: web.HTTPException) -> dict[str, str]:
    return {"Location": problem.headers["Location"]} if "Location" in problem.headers else {}


def _text(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["letter"] = lambda index: chr(65 + index)
    environment.filters["spelled"] = lambda text: spell_invisible(text, keep="\n\t")
    return environment.from_string(_text("orchestrator.human", "question.html.j2"))


STYLE = _text("orchestrator.report.html", "report.css") + _text("orchestrator.human", "question.css")
SCRIPT = _text("orchestrator.human", "question.js")
TEMPLATE = _template()
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    f"frame-ancestors 'none'; style-src {policy_hash(STYLE)}; script-src {policy_hash(SCRIPT)}",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every response. A form sends its origin under this referrer policy, and ``null`` under a stricter one."""
