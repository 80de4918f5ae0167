"""Templates, styles and scripts of the pages."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from actors.text.printable import spell_invisible


def _read(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


def load_style(name: str) -> str:
    """Return the report's style, followed by this one."""
    return _read("orchestrator.report.html", "report.css") + _read("proactive_people", name)


def load_script(name: str) -> str:
    """Return a script."""
    return _read("proactive_people", name)


def load_template(name: str) -> Template:
    """Return a template, which escapes what it prints."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["letter"] = lambda index: chr(65 + index)
    environment.filters["spelled"] = lambda text: spell_invisible(text, keep="\n\t")
    return environment.from_string(_read("proactive_people", name))
