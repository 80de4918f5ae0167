"""All that the page shows: facts, findings, tables, figures and the episodes of the browser, computed from the run data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.report.comparisons.paper_comparison import compare_with_paper
from orchestrator.report.figures.draw import FigureImage, FigureSet, run_figures
from orchestrator.report.html.cells import cells_table, paper_table, resources_table
from orchestrator.report.html.episode_browser import build_episode_browser, read_verdicts
from orchestrator.report.html.findings import Finding, find_headlines
from orchestrator.report.html.summary import Fact, list_facts, list_problems
from orchestrator.report.html.text import visible
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.table import Table

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
}


@dataclass(frozen=True, slots=True)
class ReportPage:
    """All that the template shows."""

    title: str
    facts: Sequence[Fact]
    problems: Sequence[str]
    findings: Sequence[Finding]
    tables: Sequence[Table]
    cells: Table
    paper: Table | None
    resources: Table | None
    figures: Sequence[tuple[str, str, FigureImage]]
    """Name, caption and image of each figure."""
    about: Sequence[str]
    """Notes on what the episode browser shows and lacks."""
    browser: Mapping[str, Any]
    """The data of the episode browser, for JSON."""


def build_page(
    run_data: RunData, data: Path | None, thumbnails: int, episodes: int, figures: FigureSet | None = None
) -> ReportPage:
    """Return the page of a run; the arguments are those of ``write_page``."""
    intervals, verdicts = estimate(run_data), read_verdicts(run_data.folder)
    browser, about = build_episode_browser(run_data, verdicts, data, thumbnails, episodes)
    images = (figures or run_figures(run_data)).images()
    return ReportPage(
        title=visible(run_data.sweep.name),
        facts=list_facts(run_data, verdicts),
        problems=list_problems(run_data),
        findings=find_headlines(run_data, intervals),
        tables=report_tables(run_data, intervals),
        cells=cells_table(run_data, intervals),
        paper=paper_table(compare_with_paper(run_data, intervals)),
        resources=resources_table(run_data),
        figures=[(name, CAPTIONS[name], image) for name, image in images.items()],
        about=about,
        browser=browser,
    )
