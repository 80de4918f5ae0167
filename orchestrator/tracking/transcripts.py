"""Transcripts of episodes for MLflow, turn by turn: what was shown and asked, what was replied, how that was read, how it ended.

The sample of episodes is drawn by seed over scenarios and endings, so equal folders give equal transcripts. Texts of models and
data are fenced: where a viewer reads Markdown, nothing in them is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from actors.printable import spelled
from orchestrator.datasets.staging import nearby
from orchestrator.report.endings import endings
from orchestrator.report.html.episode_view import EpisodeViews, rows_of
from orchestrator.report.html.escape import visible
from orchestrator.report.html.thumbnails import Thumbnails
from orchestrator.report.metrics import BITS
from orchestrator.report.run_data import RunData

MAX_TRANSCRIPTS = 60
"""Episodes that get a transcript."""
MAX_PICTURES = 600
"""Pictures that all transcripts may show."""


@dataclass(frozen=True, slots=True)
class TurnText:
    """One turn."""

    name: str
    question: str
    """Prompt and lettered options, fenced; a sentence where they are not known."""
    reply: str
    verdict: str
    picture: str
    """Data URI of the thumbnail, or the reason why there is none."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One episode."""

    key: str
    name: str
    tags: Mapping[str, str]
    turns: tuple[TurnText, ...]
    ending: str
    seconds: float
    answered: bool
    """Whether it ended with an answer; errors did not."""


def transcripts(
    run_data: RunData, data: Path | None = None, most: int = MAX_TRANSCRIPTS, seed: int = 0
) -> Iterator[Transcript]:
    """At most ``most`` transcripts; without the data folder they have no pictures and no questions."""
    folder = nearby(run_data.sweep) if data is None else data
    thumbnails = Thumbnails(folder if run_data.samples and folder.is_dir() else None, MAX_PICTURES)
    kinds = endings(run_data)
    keys = drawn(kinds, most, seed)
    strips = EpisodeViews(run_data, thumbnails)
    rows = {row["key"]: row for row in run_data.episodes.join(kinds.select("key", "kind"), on="key").to_dicts()}
    turns, read = rows_of(run_data.turns, keys), rows_of(run_data.verdicts.lazy(), keys)
    for key in keys:
        if strips.add(rows[key], turns.get(key, []), read.get(key, [])):
            yield _transcript(strips.found[-1], list(strips.texts.known), thumbnails.uris)


def drawn(kinds: pl.DataFrame, most: int, seed: int) -> list[str]:
    """Keys, first one episode of every ending of every scenario, then a second of each, as far as ``most`` allows."""
    queues = []
    for scenario, kind, keys in (
        kinds.group_by("scenario", "kind").agg(pl.col("key").sort()).sort("scenario", "kind").iter_rows()
    ):
        Random(f"{seed}/{scenario}/{kind}/transcripts").shuffle(keys)
        queues.append(keys)
    rounds = [key for turn in zip_longest(*queues) for key in turn if key is not None]
    return rounds[:most]


def fenced(text: str) -> str:
    """The text as a block of code that nothing in it can close; what prints as nothing is made visible."""
    shown = spelled(text, keep="\n")
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{ticks}text\n{shown}\n{ticks}"


def quoted(text: str) -> str:
    """One line of foreign text inside a sentence, as a span of code that nothing in it can close."""
    line = visible(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{ticks} {line} {ticks}"


def _transcript(strip: Mapping[str, Any], texts: list[str], uris: list[str]) -> Transcript:
    names = ("model", "scenario", "condition", "protocol", "ending", "kind")
    where = f"{strip['scenario']} {strip['sample']} · {strip['model']} · {strip['condition']}"
    right = f" The right answer: {quoted(strip['answer'].rstrip('.'))}." if "answer" in strip else ""
    error = f" {quoted(strip['error'][0])}" if "error" in strip else ""
    return Transcript(
        key=strip["key"],
        name=visible(f"{where} · {strip['kind']}"),
        tags={name: visible(strip[name]) for name in names},
        turns=tuple(_turn_text(turn, strip, texts, uris) for turn in strip["turns"]),
        ending=f"{strip['kind']} after {_turns(strip['played'])}.{right}{error}{_judged(strip)}",
        seconds=strip["seconds"] or 0.0,
        answered=strip["ending"] in ("correct", "wrong", "limit", "answered"),
    )


def _turn_text(turn: Mapping[str, Any], strip: Mapping[str, Any], texts: list[str], uris: list[str]) -> TurnText:
    picture = turn["picture"]
    more = "" if "length" not in turn else f"\n… ({turn['length']:,} characters)"
    return TurnText(
        name=f"turn {turn['turn'] + 1} · {visible(turn['action'] or 'free answer')}",
        question=_question(turn, texts) if "prompt" in turn else f"({strip.get('why', 'the question is not known')})",
        reply=fenced(texts[turn["reply"]] + more),
        verdict=_verdict(turn, texts),
        picture=uris[picture] if isinstance(picture, int) else picture,
        facts={
            "picture": visible(texts[turn["image"]]),
            **{name: visible(turn[name]) for name in ("frame", "option", "category", "action", "move") if turn[name] is not None},
        },
    )  # fmt: skip


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _judged(strip: Mapping[str, Any]) -> str:
    """What the judges said of an open-ended answer."""
    sentences = []
    for verdict in strip.get("judged", ()):
        name = visible(verdict["judge"][0])
        bits = ", ".join(f"{bit} {'yes' if verdict[bit] else 'no'}" for bit in BITS if bit in verdict)
        sentences.append(f" Judge {name}: {bits or quoted(verdict.get('reason', ['no verdict'])[0])}.")
    return "".join(sentences)


def _question(turn: Mapping[str, Any], texts: list[str]) -> str:
    options = [texts[number] for number in (*turn["options"], *turn["categories"])]
    lettered = [f"{chr(65 + n)}. {text}" for n, text in enumerate(options)]
    return fenced("\n".join([texts[turn["prompt"]], *lettered]))


def _verdict(turn: Mapping[str, Any], texts: list[str]) -> str:
    """How the reply was read."""
    if turn["action"] is None:
        return "Open-ended: how it is read is a judge's matter."
    said = f"Read as {visible(turn['action'])}: suggestion side {turn['option']}, category side {turn['category']}"
    moved = f"; the next view: {visible(turn['move'])}" if turn["move"] else ""
    right = turn.get("answer", -1)
    name = f"; right here would be {quoted(texts[turn['categories'][right]])}" if right >= 0 else ""
    return f"{said}{moved}{name}."
