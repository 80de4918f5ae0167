"""A page that a person fills in, one form after another; labels and episodes each have such a page."""

from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.text.printable import spell_invisible
from envs.answers import letter
from orchestrator.view.loopback import LoopbackPage, page_headers

MAX_BODY_BYTES = 16_384
STYLE = "".join(
    (files(package) / name).read_text("utf-8")
    for package, name in (("orchestrator.report.html", "report.css"), ("proactive_people", "question.css"))
)
SCRIPT = (files("proactive_people") / "form.js").read_text("utf-8")
OPTIONS: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
TEMPLATES = Environment(loader=PackageLoader("proactive_people", "."), autoescape=True, **OPTIONS)
TEMPLATES.globals |= {"letter": letter, "style": STYLE, "script": SCRIPT}
TEMPLATES.filters["spelled"] = lambda text: spell_invisible(text, keep="\n\t")


class FormPage(LoopbackPage):
    """A page with one form; a subclass shows it and receives what is sent. Its template escapes what it prints."""

    def __init__(self, template: str) -> None:
        routes = [web.get("/{token}/", self.show), web.post("/{token}/answer", self._read_form)]
        super().__init__(routes, page_headers(STYLE, SCRIPT, "form-action 'self'"), MAX_BODY_BYTES)
        self.template = TEMPLATES.get_template(template)

    async def show(self, request: web.Request) -> web.Response:
        """Return the page with the open form."""
        raise NotImplementedError

    async def receive(self, form: dict[str, str]) -> web.Response:
        """Store what a form says and redirect to the next one; raises HTTPBadRequest for fields that no form sends."""
        raise NotImplementedError

    def render(self, **values: Any) -> web.Response:
        """Return the page; the template also has the page itself as ``page``."""
        return web.Response(text=self.template.render(values, page=self), content_type="text/html", charset="utf-8")

    async def _read_form(self, request: web.Request) -> web.Response:
        """Receive a form, whatever its Content-Type; raises HTTPBadRequest if the body is not a valid form."""
        try:
            form = dict(parse_qsl((await request.read()).decode("ascii")))
        except (ValueError, web.RequestPayloadError):
            raise web.HTTPBadRequest from None
        return await self.receive(form)
