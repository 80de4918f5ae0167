"""Writes ``report.html``: one file that opens from disk, sends no request, and escapes all text of models.

The same folder, data and seed give the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from envs.plural import pluralize
from orchestrator.report.comparisons.paper_comparison import compare_with_paper
from orchestrator.report.figures.draw import FigureImage, FigureSet, run_figures
from orchestrator.report.html.answer import AnswerFigure, build_answer
from orchestrator.report.html.cells import cells_table, paper_table, resources_table
from orchestrator.report.html.episode_browser import build_episode_browser
from orchestrator.report.html.findings import Finding, find_headlines
from orchestrator.report.html.summary import Fact, list_facts, list_problems
from orchestrator.report.html.text import inert, policy_hash, visible
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.model_input import add_notes, input_notes
from orchestrator.report.tables.table import Table, filter_values
from orchestrator.storage import safe_write
from orchestrator.storage.replica_time import held_shares

NAME = "report.html"
SCRIPTS = ("report.js", "tables.js", "episode_view.js", "browser.js")
"""They run in this order, as one script."""
THUMBNAILS = 1_200
"""Most pictures that a page holds."""
EPISODES = 2_500
"""Most episodes that a page holds."""
CAPTIONS = {
    "reference": "Accuracy where the model must ask for what it needs, against accuracy on the clear image.",
    "actions": "What the answers were: zero-shot, with hints, and with suggestions that cannot help.",
    "conditions": "Change of each condition against zero-shot on the same samples, with paired intervals.",
    "share-changes": "Change of the shares of answers under hints and random suggestions (paper, figures 7, 20, 21).",
    "examples": "Change of solved examples against zero-shot on the same samples, with paired intervals.",
    "capacity": "Model size against proactiveness and accuracy.",
    "budget": "Accuracy when only so many suggestions are allowed.",
    "operating": "Unwilling or unable: exact accuracy over suggestions as the model's will to ask moves.",
}


@dataclass(frozen=True, slots=True)
class ReportPage:
    """Everything that the template shows."""

    title: str
    facts: Sequence[Fact]
    problems: Sequence[str]
    answer: AnswerFigure | None
    """The figure with which the page begins."""
    findings: Sequence[Finding]
    tables: Sequence[Table]
    cells: Table
    paper: Table | None
    resources: Table | None
    held: Mapping[str, float]
    """Part -> its share of the time that replicas held; empty in a run without workers."""
    figures: Sequence[tuple[str, str, FigureImage]]
    """Name, caption and image of each figure."""
    about: Sequence[str]
    """Notes on what the episode browser shows and lacks."""
    browser: Mapping[str, Any]
    """The data of the episode browser, for JSON."""


def write_page(
    run_data: RunData,
    data: Path | None = None,
    thumbnails: int = THUMBNAILS,
    episodes: int = EPISODES,
    figures: FigureSet | None = None,
) -> Path:
    """Write ``report.html`` into the run folder and return its path.

    Args:
        data: Benchmark folder (default: the sweep's); without it the page has no pictures and no options.
        thumbnails: Limit on the pictures of the episode browser.
        episodes: Limit on its episodes.
        figures: Figures that another process draws.
    """
    page = build_page(run_data, data, thumbnails, episodes, figures)
    html = render_template("template.html.j2", SCRIPTS, page=page, content=inert(page.browser))
    target = run_data.folder / NAME
    safe_write.write(target, html.encode())
    return target


def build_page(
    run_data: RunData, data: Path | None, thumbnails: int, episodes: int, figures: FigureSet | None = None
) -> ReportPage:
    """Return the contents of the page; the arguments are those of ``write_page``."""
    browser, about = build_episode_browser(run_data, data, thumbnails, episodes)
    images = (figures or run_figures(run_data)).images()
    paper, resources = paper_table(compare_with_paper(run_data)), resources_table(run_data)
    notes = input_notes(run_data.sweep, run_data.folder)
    return ReportPage(
        title=visible(run_data.sweep.name),
        facts=list_facts(run_data),
        problems=list_problems(run_data),
        answer=build_answer(run_data),
        findings=find_headlines(run_data),
        tables=report_tables(run_data),
        cells=add_notes(cells_table(run_data), notes),
        paper=paper and add_notes(paper, notes),
        resources=resources and add_notes(resources, notes),
        held=held_shares(run_data.folder),
        figures=[(name, CAPTIONS[name], image) for name, image in images.items()],
        about=about,
        browser=browser,
    )


def render_template(template: str, scripts: Sequence[str], **values: Any) -> str:
    """Render a template of this folder; its policy allows its own style and script by hash, and nothing else."""
    style = _read("report.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_read, scripts)) + "})();\n"
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
