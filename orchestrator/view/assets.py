"""The template, style and scripts of the page, served by ``page`` or written by ``bundle``."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from orchestrator.report.measures.endings import EndingKind
from orchestrator.view import query as queries
from orchestrator.view.part_columns import MAPPED
from sweeps.conditions import CONDITIONS

MOST_ROWS = 100
"""Number of rows on a page of the list."""


def _text(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


def _script(*sources: str) -> str:
    """Return the page's script; ``sources`` define ``ask``, which answers the page's requests."""
    names = [
        ("orchestrator.report.html", "report.js"),
        ("orchestrator.report.html", "episode_view.js"),
        *(("orchestrator.view", name) for name in (*sources, "list.js", "view.js")),
    ]
    return '"use strict";\n(() => {\n' + "\n".join(_text(*name) for name in names) + "})();\n"


STYLE = _text("orchestrator.report.html", "report.css") + _text("orchestrator.view", "view.css")
SERVED_SCRIPT = _script("served.js")
KIND_MEANINGS = {kind.value: kind.meaning for kind in EndingKind} | {
    MAPPED: "A decision map or an operating curve: every picture, or every question, was asked."
}
CONTENT = {
    "texts": [], "pictures": [], "kinds": KIND_MEANINGS, "conditions": list(CONDITIONS), "sorts": list(queries.SORTS),
    "rows": MOST_ROWS,
}  # fmt: skip
TEMPLATE = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
    _text("orchestrator.view", "view.html.j2")
)


def bundled_script() -> str:
    """Return the script of a bundle, with the reader of Parquet files."""
    return _script("vendor/hyparquet.min.js", "bundle.js")
