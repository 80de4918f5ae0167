"""The page on which a person plays, one question at a time, on this machine only and with a token in its address.

Responses contain the question, its options and the number of stored episodes: no answer, id or file name.
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
MAX_BODY_BYTES = 1024
"""An answer is two numbers."""
CLOSING_S = 2.0
"""Seconds for open responses when the program ends."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PlayPage:
    """The page with the person's open question and the progress."""

    def __init__(self, person: Person, done: int, total: int) -> None:
        self.person, self.done, self.total = person, done, total
        self.token = secrets.token_urlsafe(24)
        self.hosts: frozenset[str] = frozenset()
        """Allowed Host headers, port included; other names are a DNS rebinding attack."""

    def application(self) -> web.Application:
        """Return the application: the page, its pictures, and the form of answers, below the token."""
        application = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY_BYTES)
        application.add_routes(
            [
                web.get("/{token}/", self._show),
                web.get("/{token}/picture/{number:[0-9]{1,9}}", self._picture),
                web.post("/{token}/answer", self._answer),
            ]
        )
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other hosts, origins and tokens, and add the headers of every response."""
        if (status := self._refusal_status(request)) is not None:
            response: web.StreamResponse = web.Response(status=status, text="refused\n")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as problem:
                response = web.Response(status=problem.status, text=f"{problem.reason}\n", headers=_location(problem))
        response.headers.update(HEADERS)
        return response

    def _refusal_status(self, request: web.Request) -> int | None:
        """Return the HTTP status of a refusal; None for an allowed request."""
        if request.headers.get("Host") not in self.hosts:
            return 403
        own = f"http://{request.headers['Host']}"
        if request.headers.get("Origin", own if request.method == "GET" else None) != own:
            return 403
        token = request.path.split("/")[1]
        return None if secrets.compare_digest(token.encode(), self.token.encode()) else 404

    async def _show(self, request: web.Request) -> web.Response:
        return self._render(await self.person.question_after(0), "late" in request.query)

    async def _picture(self, request: web.Request) -> web.Response:
        content = self.person.pictures.get(int(request.match_info["number"]))
        if content is None:
            raise web.HTTPNotFound
        return web.Response(body=content, content_type="image/png")

    async def _answer(self, request: web.Request) -> web.Response:
        """Accept an answer and redirect to the next question; an answer to a closed question has no effect."""
        form = await request.post()
        try:
            number, choice = int(str(form["question"])), int(str(form["choice"]))
        except (KeyError, ValueError):
            raise web.HTTPBadRequest from None
        is_accepted = self.person.answer(number, choice)
        following = await self.person.question_after(number) if is_accepted else None
        if is_accepted and following is None:
            return self._render(None)  # the server stops, so a redirect would fail
        raise web.HTTPSeeOther(f"/{self.token}/" + ("" if is_accepted else "?late"))

    def _render(self, question: OpenQuestion | None, late: bool = False) -> web.Response:
        text = TEMPLATE.render(
            style=STYLE, script=SCRIPT, question=question, late=late, done=self.done, total=self.total
        )
        return web.Response(text=text, content_type="text/html", charset="utf-8")


@asynccontextmanager
async def serving(page: PlayPage, port: int = 0) -> AsyncIterator[str]:
    """Serve the page on loopback during the block and provide its address; raises SweepError if the port is taken."""
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
        raise SweepError(f"port {port} is not available ({reason}); type another --port, or leave it out") from None


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
"""Headers of every response. Under a stricter referrer policy, forms send the origin ``null``."""
