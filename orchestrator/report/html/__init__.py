"""Writes ``report.html``: one file that opens from disk, sends no request, and escapes all text of models.

The same folder, data and seed give the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from envs.plural import pluralize
from orchestrator.report.figures.draw import CAPTIONS, SHOWN, FigureImage, figure_images
from orchestrator.report.html.summary import Fact, list_facts, list_problems
from orchestrator.report.html.text import policy_hash, visible
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import answer_sentences
from orchestrator.report.scores.unreadable import unreadable_lines
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.table import Table, filter_values
from orchestrator.storage import safe_write

NAME = "report.html"


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Everything that the template shows."""

    title: str
    answers: Sequence[str]
    """Whether each model asks, in a sentence."""
    problems: Sequence[str]
    facts: Sequence[Fact]
    tables: Sequence[Table]
    figures: Sequence[tuple[str, str, FigureImage]]
    """Name, caption and image of each figure."""


def write_page(run_data: RunData, figures: Sequence[str] = SHOWN) -> Path:
    """Write ``report.html`` with these figures into the run folder and return its path."""
    html = render_template("template.html.j2", page=build_page(run_data, figures))
    target = run_data.folder / NAME
    safe_write.write(target, html.encode())
    return target


def build_page(run_data: RunData, figures: Sequence[str] = SHOWN) -> ReportPage:
    """Return the contents of the page."""
    unreadable = unreadable_lines(run_data.rows, run_data.folder, run_data.baselines)
    return ReportPage(
        title=visible(run_data.sweep.name),
        answers=[visible(sentence, 600) for sentence in answer_sentences(run_data.rows, run_data.sweep)],
        problems=[*(visible(line, 400) for line in unreadable), *list_problems(run_data)],
        facts=list_facts(run_data),
        tables=report_tables(run_data),
        figures=[(name, CAPTIONS.get(name, name), image) for name, image in figure_images(run_data, figures).items()],
    )


def render_template(template: str, **values: Any) -> str:
    """Render a template of this folder; its policy allows its own style and script by hash, and nothing else."""
    style = _read("report.css")
    script = f'"use strict";\n(() => {{\n{_read("tables.js")}}})();\n'
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src {policy_hash(style)}; script-src {policy_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    loader = PackageLoader(__package__, ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        filter_values=filter_values, pluralize=pluralize, style=style, script=script, policy=policy
    )
    environment.filters["visible"] = visible
    return environment.get_template(template).render(**values)


def _read(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
