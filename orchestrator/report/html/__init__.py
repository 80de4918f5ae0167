"""Writes ``report.html``: one file that opens from disk.

No server, no outside request, no text of a model or data file as markup.
The same folder, data and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.report.figures import Drawings, drawn_figures
from orchestrator.report.html.escape import inert, policy_hash
from orchestrator.report.html.page_data import EPISODES, THUMBNAILS, Page, gathered
from orchestrator.report.html.tables import choices
from orchestrator.report.run_data import RunData, opened
from orchestrator.report.wording import counted
from orchestrator.storage import atomic_write

__all__ = ["EPISODES", "THUMBNAILS", "write_page"]

NAME = "report.html"
SCRIPTS = ("report.js", "tables.js", "episode_view.js", "browser.js")
"""In the order in which they run, as one script."""


def write_page(
    run: RunData | Path,
    data: Path | None = None,
    thumbnails: int = THUMBNAILS,
    seed: int = 0,
    episodes: int = EPISODES,
    judge: str = "",
    strict: bool = False,
    baselines: bool = True,
    cluster: str = "",
    drawn: Drawings | None = None,
) -> Path:
    """Write ``report.html`` into a run folder and return its path; raises RunFolderError when the folder is no run.

    ``run`` is the folder, or what was read of it. ``data`` is where the benchmark lies now (default: where the sweep had it);
    without it the page has no pictures and no options, and says so. ``thumbnails`` and ``episodes`` bound what the browser
    holds, ``seed`` draws it.
    ``judge`` and ``strict`` choose the verdicts, ``cluster`` the clusters, as ``read`` does; without ``baselines`` figures
    leave them out. ``drawn`` has the figures, where they are drawn elsewhere.
    """
    run_data = opened(run, data, judge, strict, cluster)
    drawn = drawn or drawn_figures(run_data, baselines)
    page = gathered(run_data, data, thumbnails, seed, episodes, drawn)
    target = run_data.folder / NAME
    atomic_write.write(target, rendered(page).encode())
    return target


def rendered(page: Page) -> str:
    """The page as HTML."""
    return filled("template.html.j2", SCRIPTS, page=page, content=inert(page.browser))


def filled(template: str, scripts: Sequence[str], **values: Any) -> str:
    """A template of this folder as a page; its one style and one script are named by hash, and nothing else may run or load."""
    style = _text("report.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_text, scripts)) + "})();\n"
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src {policy_hash(style)}; script-src {policy_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(choices=choices, counted=counted, style=style, script=script, policy=policy)
    return environment.get_template(template).render(**values)


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
