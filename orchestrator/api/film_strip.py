"""An episode as HTML for a notebook: one card per turn with picture, options, reply and parsed action.

The template escapes all texts of models and data files, and control characters are spelled out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.datasets.staging import data_folder
from orchestrator.report.html.episode_view import EpisodeViews
from orchestrator.report.html.text import visible
from orchestrator.report.html.thumbnails import Thumbnails
from orchestrator.report.run_data import RunData

MAX_PICTURES = 40
MAX_TEXT = 4_000
"""Most characters of a text on a card."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class FilmStrip:
    """HTML that a notebook shows; ``str()`` is the HTML."""

    html: str

    def __str__(self) -> str:
        return self.html

    def _repr_html_(self) -> str:
        return self.html


def film_strip(
    run_data: RunData,
    row: Mapping[str, Any],
    turns: Sequence[Mapping[str, Any]],
    judged: Sequence[Mapping[str, Any]] = (),
    data: Path | None = None,
) -> FilmStrip:
    """Return the strip of an episode (a row of ``EPISODES``) and its turns; ``data`` is the benchmark folder if it has moved."""
    folder = data_folder(run_data.sweep) if data is None else data
    views = EpisodeViews(run_data, Thumbnails(folder if run_data.samples and folder.is_dir() else None, MAX_PICTURES))
    views.add({**row, "kind": row["ending"]}, turns, judged)
    texts, view = list(views.texts), views.views[0]
    cards = [_card(turn, texts, views.thumbnails.uris) for turn in view["turns"]]
    verdicts = [{name: _first(value) for name, value in verdict.items()} for verdict in view.get("judged", ())]
    environment = Environment(
        loader=PackageLoader("orchestrator.api", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["visible"] = lambda text: visible(text, MAX_TEXT)
    page = environment.get_template("film_strip.html.j2")
    hidden_turns = view["played"] - len(cards)
    return FilmStrip(
        page.render(
            episode=view, cards=cards, verdicts=verdicts, hidden_turns=hidden_turns, error=_first(view.get("error", ""))
        )
    )


def _card(turn: Mapping[str, Any], texts: Sequence[str], pictures: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a turn's card, with texts and pictures in place of their indexes."""
    picture = turn["picture"]
    has_picture = isinstance(picture, int)
    asks, chosen = set(turn.get("asks", ())), turn.get("said", (-1, -1))
    suggestions, categories = (turn.get(name, ()) for name in ("options", "categories"))
    options = [
        {"text": texts[n], "counts": at in asks, "said": at == chosen[0]} for at, n in enumerate(suggestions)
    ] + [{"text": texts[n], "counts": at == turn["answer"], "said": at == chosen[1]} for at, n in enumerate(categories)]
    return {
        "turn": turn["turn"] + 1,
        "frame": turn["frame"],
        "picture": pictures[picture] if has_picture else "",
        "missing": "" if has_picture else f"no picture: {picture}",
        "prompt": texts[turn["prompt"]] if "prompt" in turn else "",
        "options": [{"letter": letter, **option} for letter, option in zip(LETTERS, options, strict=False)],
        "reply": texts[turn["reply"]],
        "read": " → ".join(filter(None, (turn["action"], turn["move"]))),
    }


def _first(value: Any) -> Any:
    """Return the text of a shortened text (``html.text.cut``); other values unchanged."""
    return value[0] if isinstance(value, list) else value
