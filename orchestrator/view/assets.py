"""The template, style and scripts of the page, served by ``page`` or written by ``bundle``."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from orchestrator.report.html.text import visible
from orchestrator.report.measures.endings import EndingKind
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import folder_answers
from orchestrator.view.catalog import MAPPED


def _text(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


STYLE = _text("orchestrator.report.html", "report.css") + _text("orchestrator.view", "view.css")
SCRIPTS = ("dom.js", "episode_view.js", "vendor/hyparquet.min.js", "source.js", "episodes.js", "list.js", "view.js")
SCRIPT = '"use strict";\n(() => {\n' + "\n".join(_text("orchestrator.view", name) for name in SCRIPTS) + "})();\n"
KIND_MEANINGS = {kind.value: kind.meaning for kind in EndingKind} | {
    MAPPED: "A decision map or an operating curve: every picture, or every question, was asked."
}
TEMPLATE = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
    _text("orchestrator.view", "view.html.j2")
)


def render_page(runs: Mapping[str, RunData], policy: str = "", **more: Any) -> str:
    """Return the page of some runs, headed by the sentences on whether models ask; ``more`` reaches its script."""
    content = {"kinds": KIND_MEANINGS, **more}
    answers = [text for run in runs.values() for text in folder_answers(run.folder)]
    title = ", ".join(map(visible, runs))
    return TEMPLATE.render(
        style=STYLE, script=SCRIPT, title=title, answers=answers, policy=policy, content=inert(content)
    )


def inert(content: Mapping[str, Any]) -> str:
    """Return JSON that cannot end its ``script`` element: ASCII without ``<``, ``>`` and ``&``, equal bytes for equal content."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&"})
