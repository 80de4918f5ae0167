"""All that the page shows: facts, findings, tables, figures and the episodes of the browser.

A page is a value computed from the run data alone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from envs import SCENARIOS
from orchestrator.datasets.staging import nearby
from orchestrator.report.difficulty import difficulty, hardest
from orchestrator.report.endings import Kind, endings
from orchestrator.report.estimates import estimate
from orchestrator.report.evidence_tables import HARDEST
from orchestrator.report.figures import Drawings, Picture, drawn_figures
from orchestrator.report.grid_parts import models
from orchestrator.report.html import summary, tables
from orchestrator.report.html.episode_sample import chosen
from orchestrator.report.html.episode_view import EpisodeViews, rows_of
from orchestrator.report.html.escape import visible
from orchestrator.report.html.findings import Finding, findings
from orchestrator.report.html.resource_table import took
from orchestrator.report.html.thumbnails import Thumbnails
from orchestrator.report.paper_comparison import compared
from orchestrator.report.run_data import RunData
from orchestrator.report.tables import grids
from orchestrator.report.wording import counted
from orchestrator.storage.episode_store import UNREADABLE
from sweeps.conditions import CONDITIONS

THUMBNAILS = 1_200
"""Pictures that a page holds."""
EPISODES = 2_500
"""Episodes that a page holds."""

CAPTIONS = {
    "reference": "Accuracy where the model must ask for what it needs, against accuracy on the clear image.",
    "actions": "What the answers were: zero-shot, with hints, and with suggestions that cannot help.",
    "conditions": "What each condition changes against zero-shot on the same samples, with paired intervals.",
    "share-changes": "What hints and random suggestions change in what models do (paper, figures 7, 20, 21).",
    "examples": "What solved examples change against zero-shot on the same samples, with paired intervals.",
    "capacity": "Size against proactiveness and accuracy.",
    "budget": "Accuracy when only so many suggestions are allowed.",
}
MEANINGS = {
    Kind.CORRECT: "The right category was named when it could count.",
    Kind.GUESSED_EARLY: "A category was named while the view did not yet tell, and it was wrong or could not count yet.",
    Kind.GUESSED_CLEAR: "A wrong category was named although the view was as clear as the reference.",
    Kind.GUESSED: "A wrong category was named; whether the view was clear is not known.",
    Kind.GAVE_UP: "The abstention was chosen.",
    Kind.ASKED_WRONG: "A suggestion was chosen that counts for nothing here.",
    Kind.LED_ASTRAY: "The random move that a suggestion made left the video.",
    Kind.ASKED_FOR_EVER: "The last turn was spent on one more suggestion.",
    Kind.OUTGROWN: "The next prompt did not fit the model: too many tokens or pictures. Counted as not right.",
    Kind.SILENCED: "The tokens of a reply were spent before its first word. Counted as not right.",
    Kind.UNPARSABLE: "The last reply names nothing that was shown.",
    Kind.ANSWERED: "One free answer was given (open-ended); the judge's verdict stands below it.",
    Kind.UNPROCESSABLE: "No answer: a picture could not be read, or the model's processor refused it.",
    Kind.REFUSED: "No answer: the provider declined.",
    Kind.FAILED: "No answer: the harness gave the episode up.",
}


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure as it stands in the page."""

    name: str
    caption: str
    uri: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Page:
    """All that the template shows."""

    title: str
    facts: Sequence[summary.Fact]
    problems: Sequence[str]
    findings: Sequence[Finding]
    grids: Sequence[tables.PageTable]
    cells: tables.PageTable
    paper: tables.PageTable | None
    took: tables.PageTable | None
    figures: Sequence[FigureFile]
    about: Sequence[str]
    """What the browser holds, and what it does not."""
    browser: Mapping[str, Any]
    """The browser's data, for JSON."""


def gathered(
    run_data: RunData, data: Path | None, thumbnails: int, seed: int, episodes: int, drawn: Drawings | None = None
) -> Page:
    """The page of a run; see ``write_page``."""
    intervals = estimate(run_data)
    judged = _judged(run_data.folder)
    views, about = _views(run_data, judged, _at_hand(run_data, data), thumbnails, seed, episodes)
    return Page(
        title=visible(run_data.sweep.name),
        facts=summary.facts(run_data, judged),
        problems=summary.problems(run_data),
        findings=findings(run_data, intervals),
        grids=[tables.page_table(grid) for grid in grids(run_data, intervals)],
        cells=tables.cells(run_data, intervals),
        paper=tables.beside_paper(compared(run_data, intervals)),
        took=took(run_data),
        about=about,
        browser=_browser(views, run_data),
        figures=[
            _figure_file(name, picture) for name, picture in (drawn or drawn_figures(run_data)).pictures().items()
        ],
    )


def _at_hand(run_data: RunData, data: Path | None) -> Path | None:
    """The data folder, if it holds what was played."""
    folder = nearby(run_data.sweep) if data is None else data
    return folder if run_data.samples and folder.is_dir() else None


def _judged(folder: Path) -> pl.DataFrame:
    """The judges' verdicts, empty where there are none."""
    files = sorted((folder / "verdicts").glob("*.parquet"))
    frames = []
    for file in files:
        try:
            frames.append(pl.read_parquet(file, glob=False, hive_partitioning=False))
        except UNREADABLE:  # a torn part counts as absent
            continue
    frames = [frame for frame in frames if frame.schema.get("key") == pl.String]
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema={"key": pl.String})


def _views(
    run_data: RunData, judged: pl.DataFrame, data: Path | None, most_pictures: int, seed: int, most: int
) -> tuple[EpisodeViews, list[str]]:
    ended = endings(run_data)
    linked = hardest(difficulty(run_data), HARDEST)["example"].to_list()
    keys = chosen(ended, most, seed, linked)
    shown = ended.select("key", "kind").filter(pl.col("key").is_in(keys))
    rows = {row["key"]: row for row in run_data.episodes.join(shown, on="key").to_dicts()}
    turns, verdicts = rows_of(run_data.turns, keys), rows_of(judged.lazy(), keys)
    thumbnails = Thumbnails(data, most_pictures)
    views = EpisodeViews(run_data, thumbnails)
    for key in keys:
        if not views.add(rows[key], turns.get(key, []), verdicts.get(key, [])):
            break
    return views, _about(views, run_data, seed)


def _about(views: EpisodeViews, run_data: RunData, seed: int) -> list[str]:
    held, total = len(views.found), run_data.episodes.height
    pictures = views.thumbnails
    if held == total:
        first = f"{counted(total, 'episode')}, all that were played"
    else:
        first = (
            f"{held:,} of {counted(total, 'episode')}, drawn with seed {seed}: whole samples under every model and condition, "
            "and one episode of every ending of every cell, as far as the page's bounds allow; all others are in the store"
        )
    if pictures.renderer is None:
        return [f"{first}.", "There are no pictures and no options, because the data folder is not at hand."]
    second = f"{counted(len(pictures.uris), 'picture')} of what the models saw, as thumbnails, crop applied"
    if pictures.left_out:
        second += f"; {pictures.left_out:,} more left out to bound the file"
    return [f"{first}.", f"{second}."]


def _browser(views: EpisodeViews, run_data: RunData) -> dict[str, Any]:
    found = sorted(views.found, key=_place(run_data))
    return {
        "total": run_data.episodes.height,
        "texts": list(views.texts.known),
        "pictures": views.thumbnails.uris,
        "kinds": {kind.value: text for kind, text in MEANINGS.items()},
        "conditions": list(CONDITIONS),
        "episodes": found,
    }


def _place(run_data: RunData) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Where an episode stands in the list: models as in the tables, scenarios and conditions as in the paper."""
    ranks = {
        "model": models(run_data, run_data.rows["model"]),
        "scenario": list(SCENARIOS),
        "condition": list(CONDITIONS),
        "kind": [kind.value for kind in Kind],
    }
    known = {column: {name: n for n, name in enumerate(names)} for column, names in ranks.items()}

    def place(one: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*[(known[column].get(one[column], 99), one[column]) for column in known], one["key"])

    return place


def _figure_file(name: str, picture: Picture) -> FigureFile:
    kind, content, width, height = picture
    uri = f"data:image/{kind};base64,{b64encode(content).decode()}"
    return FigureFile(name, CAPTIONS.get(name, name.replace("-", " ").capitalize() + "."), uri, width, height)
