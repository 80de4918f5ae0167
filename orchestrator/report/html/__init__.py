"""Writes ``report.html``, a file that opens from disk, sends no request, and escapes all text.

The same folder, data and seed give the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from envs.plural import pluralize
from orchestrator.report.figures.draw import CAPTIONS, SHOWN, FigureImage, figure_images
from orchestrator.report.html.summary import list_facts, list_problems
from orchestrator.report.html.text import policy_hash, visible
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import answer_sentences
from orchestrator.report.scores.unreadable import unreadable_lines
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.table import Table
from orchestrator.storage import safe_write

NAME = "report.html"


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Everything that the template shows."""

    title: str
    tables: Sequence[Table]
    problems: Sequence[str]
    answers: Sequence[str]
    """Whether each model asks, in a sentence."""
    facts: Mapping[str, str]
    figures: Sequence[tuple[str, str, FigureImage]]
    """Name, caption and image of each figure."""


def write_page(run_data: RunData, figures: Sequence[str] = SHOWN) -> Path:
    """Write ``report.html`` with these figures into the run folder and return its path."""
    return _write(run_data.folder / NAME, build_page(run_data, figures))


def build_page(run_data: RunData, figures: Sequence[str] = SHOWN) -> ReportPage:
    """Return the contents of the page."""
    answers = [visible(sentence, 600) for sentence in answer_sentences(run_data.rows, run_data.sweep)]
    unreadable = unreadable_lines(run_data.rows, run_data.folder, run_data.baselines)
    return ReportPage(
        title=visible(run_data.sweep.name),
        tables=report_tables(run_data),
        problems=[*(visible(line, 400) for line in unreadable), *list_problems(run_data)],
        answers=answers or ["No episode of a model is scored."],
        facts=list_facts(run_data),
        figures=[(name, CAPTIONS.get(name, name), image) for name, image in figure_images(run_data, figures).items()],
    )


def _write(target: Path, page: ReportPage) -> Path:
    """Write a page whose policy allows its own style by hash, and nothing else."""
    style = (files(__package__) / "report.css").read_text("utf-8")
    policy = f"default-src 'none'; img-src data:; style-src {policy_hash(style)}; base-uri 'none'; form-action 'none'"
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader(__package__, "."), autoescape=True, **options)
    environment.filters["visible"] = visible
    template = environment.get_template("template.html.j2")
    text = template.render(page=page, pluralize=pluralize, style=style, policy=policy)
    safe_write.write(target, text.encode())
    return target
