"""Writes ``report.html``: one file that opens from disk, requests nothing, and takes no text of a model for markup.

The same folder, data and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.report.figures.draw import FigureSet
from orchestrator.report.html.page_data import EPISODES, THUMBNAILS, build_page
from orchestrator.report.html.text import inert, policy_hash, visible
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.table import filter_values
from orchestrator.report.wording import pluralize
from orchestrator.storage import atomic_write

__all__ = ["EPISODES", "THUMBNAILS", "write_page"]

NAME = "report.html"
SCRIPTS = ("report.js", "tables.js", "episode_view.js", "browser.js")
"""They run in this order, as one script."""


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
    atomic_write.write(target, html.encode())
    return target


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
