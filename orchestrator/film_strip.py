"""One episode as the browser shows it: its pictures, questions, options and replies.

The store holds replies, not options. The sample is loaded from the data folder and its stored replies are played through the
game again; question and options are shown only if that gives the stored readings; otherwise the view gives a reason. Turns with
equal pictures share a thumbnail, whose number and bytes are bounded; a picture that cannot be shown has a reason in its place.
"""

import io
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.answers import named_indices
from envs.render import Renderer, UnreadablePicture
from envs.types import ImageRef, Sample, View
from orchestrator.audit.answers import Replayed, replay
from orchestrator.datasets.staging import data_folder
from orchestrator.report.html.text import visible
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row
from sweeps.conditions import Condition
from sweeps.protocol import Protocol

LONGEST_REPLY = 2_000
"""Most characters of a reply, an error or a judge's reasoning that a page holds."""
FIRST, LAST = 16, 4
"""Turns of a long episode that are shown, from its beginning and from its end."""
EPISODE = ("key", "model", "scenario", "condition", "protocol", "ending", "kind")
VERDICT = ("judge", "category", "suggestion", "aggregate", "reason", "attempts", "text")
"""Columns of an episode and of a verdict that are shown."""
NOT_SHOWN = "question and options are not shown"
OPEN = {
    Protocol.OEG: "an open question: no options were shown",
    Protocol.OEG_MULTI: "open questions: no options were shown, and a judge read each answer",
}
"""Open-ended protocols -> why no options are shown."""
EDGE = 208
"""Pixels of a thumbnail's longer side."""
QUALITY = 72
MOST_BYTES = 6_000_000
"""Most bytes that all thumbnails take in a page."""
CACHE_BYTES = 64 << 20
Keep = Callable[[bytes], int]

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_KEY = re.compile(rf"(.*?)(?:@({_NUMBER}),({_NUMBER}),({_NUMBER}),({_NUMBER}))?(#grey)?(?:\^(\d{{1,6}}))?", re.DOTALL)


def picture_folder(run_data: RunData, data: Path | None = None) -> Path | None:
    """Return the data folder (default: the one that the run was read with); None if it is absent or lacks the run's samples."""
    folder = data or run_data.data or data_folder(run_data.sweep)
    return folder if run_data.samples and folder.is_dir() else None


def parse_image_key(key: str) -> ImageRef:
    """Return the picture of a stored name, the inverse of ``ImageRef.key``."""
    match = _KEY.fullmatch(key)
    assert match is not None  # the first group takes whatever the others do not
    path, *crop, grey, edge = match.groups()
    box = None if crop[0] is None else (float(crop[0]), float(crop[1]), float(crop[2]), float(crop[3]))
    return ImageRef(path, box, None if edge is None else int(edge), grey is not None)


class Thumbnails:
    """The pictures of one page: ``number`` gives each its index in ``uris``, or the one that ``keep`` returns."""

    def __init__(
        self, data: Path | None, most: float = inf, most_bytes: int = MOST_BYTES, keep: Keep | None = None
    ) -> None:
        """``data`` is the benchmark folder, None if it is not available; ``most`` bounds the number of pictures."""
        self.renderer = None if data is None else Renderer(data, CACHE_BYTES)
        self.most, self.most_bytes, self.keep = most, most_bytes, keep or self._embed
        self.uris: list[str] = []
        self.bytes = 0
        self._add_once = cache(self._add)

    def number(self, key: str) -> int | str:
        """Return the picture's number, or the reason why it is missing."""
        if self.renderer is None:
            return "the data folder is not available"
        if not key:
            return "none was shown"
        ref = parse_image_key(key)
        return self._add_once(self.renderer, ImageRef(ref.path, ref.crop, grey=ref.grey))

    def _add(self, renderer: Renderer, ref: ImageRef) -> int | str:
        """Keep the picture in WebP, and return its number; the reason if it cannot be shown."""
        if len(self.uris) >= self.most or self.bytes >= self.most_bytes:
            return "left out: the number of pictures of a page is bounded"
        try:
            picture = renderer.picture(ref)
        except UnreadablePicture as problem:
            return visible(problem)
        scale, buffer = min(1.0, EDGE / max(picture.size)), io.BytesIO()
        small = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
        small.save(buffer, "WEBP", quality=QUALITY, method=4)
        return self.keep(buffer.getvalue())

    def _embed(self, picture: bytes) -> int:
        uri = "data:image/webp;base64," + b64encode(picture).decode()
        self.uris.append(uri)
        self.bytes += len(uri)
        return len(self.uris) - 1


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """The question of a turn, from playing the episode again."""

    view: View
    answer: int = -1
    """Index of the right category among all options; -1 while no category counts as right."""
    asks: tuple[int, ...] = ()
    """Indexes of the suggestions that count now."""
    said: tuple[int, ...] = ()
    """Indexes among all options of the suggestion and of the category that the reply names."""


def view_episode(
    run_data: RunData, thumbnails: Thumbnails, row: Row, turns: Sequence[Row], verdicts: Sequence[Row] = ()
) -> dict[str, Any]:
    """Return an episode (a row of the store with ``kind``) for JSON."""
    sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    questions, reason = replay_episode(run_data, row, turns)
    excerpt = turns if len(turns) <= FIRST + LAST else [*turns[:FIRST], *turns[-LAST:]]
    view = {
        **{name: row[name] for name in EPISODE},
        "sample": row["sample_id"],
        "played": row["turns"],
        "seconds": round(row["seconds"], 3) if _is_plain(row["seconds"]) else None,
        "tokens": [row["prompt_tokens"] or 0, row["reply_tokens"] or 0],
        "error": list(cut(row["error"], LONGEST_REPLY)) if row["error"] else None,
        "why": reason or None,
        "turns": [_view_turn(thumbnails, turn, questions.get(turn["turn"])) for turn in excerpt],
        "judged": [_verdict(verdict) for verdict in verdicts] or None,
    }
    if sample is not None:
        view |= {"answer": sample.answer, "limit": int(SCENARIOS[sample.scenario].limit(sample))}
    return {name: value for name, value in view.items() if value is not None or name == "seconds"}


def _view_turn(thumbnails: Thumbnails, turn: Row, question: ReplayedTurn | None) -> dict[str, Any]:
    reply, length = cut(turn["reply"] or "", LONGEST_REPLY)
    image, thoughts = turn["image"] or "", turn.get("thoughts") or ""
    view = {name: turn[name] for name in ("turn", "frame", "option", "category", "action", "move")}
    view |= {"picture": thumbnails.number(image), "image": cut(image, LONGEST_REPLY)[0], "reply": reply}
    if question:
        view |= {"prompt": question.view.prompt, "answer": question.answer, "asks": question.asks}
        view |= {"options": question.view.options, "categories": question.view.categories, "said": question.said}
    optional = {
        "length": length,
        "edge": parse_image_key(image).short_edge,
        "thoughts": cut(thoughts, LONGEST_REPLY)[0],
    }
    return view | {name: value for name, value in optional.items() if value}


def replay_episode(run_data: RunData, row: Row, turns: Sequence[Row]) -> tuple[dict[int, ReplayedTurn], str]:
    """Return the question of each turn, and the reason why questions or options are missing; empty if none are."""
    sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    condition = run_data.conditions.get(row["condition"])
    if not turns:
        return {}, ""
    if row["protocol"] in OPEN:
        questions = _replay(sample, condition, row, turns) if sample is not None and condition is not None else {}
        return questions, OPEN[row["protocol"]]
    if sample is None:
        return {}, f"{NOT_SHOWN}: the data folder does not hold this sample as it was played"
    if condition is None or row["protocol"] not in [*Protocol]:
        return {}, f"{NOT_SHOWN}: the sweep plays no {row['condition']} ({row['protocol']})"
    replayed = _replay(apply_condition(sample, condition, run_data.sweep.seed), condition, row, turns)
    is_equal = len(replayed) == len(turns)
    return (replayed, "") if is_equal else ({}, f"{NOT_SHOWN}: playing the stored replies again gives other readings")


def _replay(sample: Sample, condition: Condition, row: Row, turns: Sequence[Row]) -> dict[int, ReplayedTurn]:
    """Return the question that each stored reply answered, up to the first turn whose stored frame or reading differs."""
    protocol, questions = Protocol(row["protocol"]), dict[int, ReplayedTurn]()
    replies = [turn["judged" if protocol is Protocol.OEG_MULTI else "reply"] for turn in turns]
    readings = ("frame",) if protocol.is_open_ended else ("frame", "option", "category", "action")
    for turn, again in zip(turns, replay(sample, condition, replies, protocol, row["seed"]), strict=False):
        if any(turn[name] != getattr(again.turn, name) for name in readings):
            break
        questions[turn["turn"]] = _question(sample, again, protocol)
    return questions


def _question(sample: Sample, again: Replayed, protocol: Protocol) -> ReplayedTurn:
    """Return the question of a turn, with what counts there and what the reply names."""
    game, view = SCENARIOS[sample.scenario], again.view
    if protocol.is_open_ended:
        return ReplayedTurn(view._replace(options=(), categories=()))
    askable = set(game.askable(sample, again.before)) if view.options else set()
    asks = tuple(n for n, option in enumerate(view.options) if option in askable)
    named = named_indices(again.option or "", view.options, view.categories)
    answer = len(view.options) + view.categories.index(sample.answer) if game.answerable(sample, again.before) else -1
    return ReplayedTurn(view, answer, asks, named)


def _verdict(row: Row) -> dict[str, Any]:
    """Return the shown columns of a verdict, texts cut."""
    shown = {name: row[name] for name in VERDICT if _is_plain(row.get(name))}
    return {name: list(cut(value, LONGEST_REPLY)) if isinstance(value, str) else value for name, value in shown.items()}


def cut(text: str, longest: int) -> tuple[str, int]:
    """Return the text, cut if it is too long, and its full length; 0 if nothing was cut."""
    return (text, 0) if len(text) <= longest else (text[:longest], len(text))


def _is_plain(value: Any) -> bool:
    return isfinite(value) if isinstance(value, float) else isinstance(value, str | int)


def rows_by_key(table: pl.LazyFrame, keys: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each key, in the order of the table."""
    names = pl.Series(list(keys), dtype=pl.String).implode()
    return table.filter(pl.col("key").is_in(names)).collect().rows_by_key("key", named=True, include_key=True)
