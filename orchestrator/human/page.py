"""The page on which a person plays, one question at a time, on this machine only and with a token in its address.

Responses contain the question, its options and the number of stored episodes: no answer, id or file name.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from aiohttp import web
from jinja2 import Environment, StrictUndefined

from actors.text.printable import spell_invisible
from orchestrator.human.loopback import LoopbackPage, page_headers, read_form
from orchestrator.human.person import OpenQuestion, Person

MAX_BODY_BYTES = 1024
"""An answer is two numbers."""


class PlayPage(LoopbackPage):
    """The page with the person's open question and the progress."""

    def __init__(self, person: Person, done: int, total: int) -> None:
        routes = [
            web.get("/{token}/", self._show),
            web.get("/{token}/picture/{number:[0-9]{1,9}}", self._picture),
            web.post("/{token}/answer", self._answer),
        ]
        super().__init__(routes, page_headers(STYLE, SCRIPT, "form-action 'self'"), MAX_BODY_BYTES)
        self.person, self.done, self.total = person, done, total

    async def _show(self, request: web.Request) -> web.Response:
        return self._render(await self.person.question_after(0), "late" in request.query)

    async def _picture(self, request: web.Request) -> web.Response:
        content = self.person.pictures.get(int(request.match_info["number"]))
        if content is None:
            raise web.HTTPNotFound
        return web.Response(body=content, content_type="image/png")

    async def _answer(self, request: web.Request) -> web.Response:
        """Accept an answer and redirect to the next question; an answer to a closed question has no effect."""
        form = await read_form(request)
        try:
            number, choice = int(form["question"]), int(form["choice"])
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
