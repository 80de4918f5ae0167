"""Templates and styles of the pages."""

from importlib.resources import files
from urllib.parse import parse_qsl

from aiohttp import web
from jinja2 import Environment, StrictUndefined, Template

from actors.text.printable import spell_invisible


def read_text(name: str, package: str = "proactive_people") -> str:
    return (files(package) / name).read_text("utf-8")


def load_style(name: str) -> str:
    """Return the report's style, followed by this one."""
    return read_text("report.css", "orchestrator.report.html") + read_text(name)


def load_template(name: str) -> Template:
    """Return a template, which escapes what it prints."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["letter"] = lambda index: chr(65 + index)
    environment.filters["spelled"] = lambda text: spell_invisible(text, keep="\n\t")
    return environment.from_string(read_text(name))


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form, whatever its Content-Type; raises HTTPBadRequest if the body is not a valid form."""
    try:
        return dict(parse_qsl((await request.read()).decode("ascii")))
    except (ValueError, web.RequestPayloadError):
        raise web.HTTPBadRequest from None
