"""Templates and styles of the pages."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from actors.text.printable import spell_invisible


def read_text(name: str, package: str = "proactive_people") -> str:
    """Return a file of a package."""
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
