"""Transcripts of a sample of episodes, turn by turn: picture, question, reply, verdict and ending.

The sample is drawn by seed over scenarios and endings, so equal folders have equal transcripts. Texts of models and data are
fenced, so that a viewer of Markdown interprets nothing in them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from actors.text.printable import spell_invisible
from orchestrator.report.html.episode_view import EpisodeViews, rows_by_key
from orchestrator.report.html.text import visible
from orchestrator.report.html.thumbnails import Thumbnails, picture_folder
from orchestrator.report.measures.endings import endings
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS

MAX_TRANSCRIPTS = 60
"""Episodes that get a transcript."""
MAX_PICTURES = 600
"""Pictures in all transcripts together."""


@dataclass(frozen=True, slots=True)
class TurnText:
    """One turn of an episode, as Markdown."""

    name: str
    question: str
    """Prompt and lettered options, fenced; or a sentence that says why they are unknown."""
    reply: str
    verdict: str
    picture: str
    """Data URI of the thumbnail, or the reason why there is none."""
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One episode."""

    key: str
    name: str
    tags: Mapping[str, str]
    turns: tuple[TurnText, ...]
    ending: str
    seconds: float
    tokens: tuple[int, int]
    """Of prompts and of replies."""
    asked: bool
    answered: bool
    """True if it ended with an answer rather than an error."""


def transcripts(
    run_data: RunData, data: Path | None = None, limit: int = MAX_TRANSCRIPTS, seed: int = 0
) -> Iterator[Transcript]:
    """Yield at most ``limit`` transcripts, of baselines only if there is no model.

    Without the data folder they have no pictures and no questions.
    """
    thumbnails = Thumbnails(picture_folder(run_data, data), MAX_PICTURES)
    kinds = endings(run_data)
    baselines = [model.name for model in run_data.sweep.models if model.backend == "builtin"]
    of_models = kinds.filter(~pl.col("model").is_in(baselines))
    keys = sample_keys(of_models if of_models.height else kinds, limit, seed)
    views = EpisodeViews(run_data, thumbnails)
    rows = {row["key"]: row for row in run_data.episodes.join(kinds.select("key", "kind"), on="key").to_dicts()}
    turns, verdicts = rows_by_key(run_data.turns, keys), rows_by_key(run_data.verdicts.lazy(), keys)
    for key in keys:
        if views.add(rows[key], turns.get(key, []), verdicts.get(key, [])):
            yield _transcript(views.views[-1], rows[key], list(views.texts), thumbnails.uris)


def sample_keys(kinds: pl.DataFrame, limit: int, seed: int) -> list[str]:
    """Return keys: one episode of every ending of every scenario, then a second of each, up to ``limit``."""
    queues = []
    for scenario, kind, keys in (
        kinds.group_by("scenario", "kind").agg(pl.col("key").sort()).sort("scenario", "kind").iter_rows()
    ):
        Random(f"{seed}/{scenario}/{kind}/transcripts").shuffle(keys)
        queues.append(keys)
    return [key for keys in zip_longest(*queues) for key in keys if key is not None][:limit]


def code_block(text: str) -> str:
    """Return a block of code that nothing in the text can close; invisible characters are spelled out."""
    visible_text = spell_invisible(text, keep="\n")
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", visible_text)), default=0))
    return f"{ticks}text\n{visible_text}\n{ticks}"


def code_span(text: str) -> str:
    """Return one line of text as a span of code that nothing in it can close."""
    line = visible(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{ticks} {line} {ticks}"


def _transcript(view: Mapping[str, Any], row: Mapping[str, Any], texts: list[str], uris: list[str]) -> Transcript:
    names = ("model", "scenario", "condition", "protocol", "ending")
    title = f"{view['scenario']} {view['sample']} · {view['model']} · {view['condition']}"
    answer = f" The right answer: {code_span(view['answer'].rstrip('.'))}." if "answer" in view else ""
    error = f" {code_span(view['error'][0])}" if "error" in view else ""
    return Transcript(
        key=view["key"],
        name=visible(f"{title} · {view['kind']}"),
        tags={name: visible(view[name]) for name in names},
        turns=tuple(_turn_text(turn, view, texts, uris) for turn in view["turns"]),
        ending=f"{view['kind']} after {_turns(view['played'])}.{answer}{error}{_describe_verdicts(view)}",
        seconds=row["seconds"] or 0.0,
        tokens=(row["prompt_tokens"] or 0, row["reply_tokens"] or 0),
        asked=bool(row["suggestions"]),
        answered=view["ending"] in ("correct", "wrong", "limit", "answered"),
    )


def _turn_text(turn: Mapping[str, Any], view: Mapping[str, Any], texts: list[str], uris: list[str]) -> TurnText:
    picture = turn["picture"]
    cut = "" if "length" not in turn else f"\n… ({turn['length']:,} characters)"
    return TurnText(
        name=f"turn {turn['turn'] + 1} · {visible(turn['action'] or 'free answer')}",
        question=_question(turn, texts) if "prompt" in turn else f"({view.get('why', 'the question is unknown')})",
        reply=code_block(texts[turn["reply"]] + cut),
        verdict=_verdict(turn, texts),
        picture=uris[picture] if isinstance(picture, int) else picture,
        attributes={
            "picture": visible(texts[turn["image"]]),
            **{name: visible(turn[name]) for name in ("frame", "option", "category", "action", "move") if turn[name] is not None},
        },
    )  # fmt: skip


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _describe_verdicts(view: Mapping[str, Any]) -> str:
    """Return the verdicts of the judges on an open-ended answer, as sentences."""
    sentences = []
    for verdict in view.get("judged", ()):
        name = visible(verdict["judge"][0])
        bits = ", ".join(f"{bit} {'yes' if verdict[bit] else 'no'}" for bit in BITS if bit in verdict)
        sentences.append(f" Judge {name}: {bits or code_span(verdict.get('reason', ['no verdict'])[0])}.")
    return "".join(sentences)


def _question(turn: Mapping[str, Any], texts: list[str]) -> str:
    options = [texts[number] for number in (*turn["options"], *turn["categories"])]
    lettered = [f"{chr(65 + n)}. {text}" for n, text in enumerate(options)]
    return code_block("\n".join([texts[turn["prompt"]], *lettered]))


def _verdict(turn: Mapping[str, Any], texts: list[str]) -> str:
    """Return how the reply was parsed, as a sentence."""
    if turn["action"] is None:
        return "Open-ended: a judge decides."
    parsed = f"Read as {visible(turn['action'])}: suggestion side {turn['option']}, category side {turn['category']}"
    move = f"; the next view: {visible(turn['move'])}" if turn["move"] else ""
    correct = turn.get("answer", -1)
    answer = f"; correct here: {code_span(texts[turn['categories'][correct]])}" if correct >= 0 else ""
    return f"{parsed}{move}{answer}."
