"""One episode as the browser shows it: its pictures, questions, options and replies.

Question and options are shown only if playing again gives the stored readings.

The store holds replies, not options: the sample is loaded from the data folder and its stored replies are answered once
more through the game. Where that cannot be done, or comes out otherwise, the view says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import polars as pl

from actors.prompts import posed, posed_openly, staged
from envs import SCENARIOS
from envs.answers import as_letter, as_text, side
from envs.lenient import forgiven
from envs.scenario import Scenario
from envs.types import Move, Sample, State, View
from orchestrator.report.html.escape import cut
from orchestrator.report.html.thumbnails import Thumbnails, reference
from orchestrator.report.run_data import RunData
from orchestrator.storage.planned_episodes import key_frame
from sweeps.conditions import Condition
from sweeps.spec import Protocol

LONGEST_REPLY = 2_000
"""Characters of a reply, an error or a judge's reasoning that a page holds."""
FIRST, LAST = 16, 4
"""Turns of a long episode that are shown, from its beginning and from its end."""
VERDICT = ("judge", "category", "suggestion", "aggregate", "reason", "attempts", "text")
"""What is shown of a verdict; its other columns stand beside it already."""
MOST_BYTES = 5_000_000
"""Bytes of all views of a page, pictures apart."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Posed:
    """What a turn asked, played again."""

    view: View
    answer: int
    """Index of the right category; -1 where it cannot count yet."""
    asks: tuple[int, ...]
    """Indexes of the suggestions that count now."""
    said: tuple[int, int]
    """Indexes of the suggestion side's and of the category side's option that the reply names; -1 for none."""


class Texts:
    """Texts that many turns share, each held once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def place(self, text: str) -> int:
        """The text's number."""
        return self.known.setdefault(text, len(self.known))


class EpisodeViews:
    """Episodes of one page, until its bytes are spent."""

    def __init__(self, run_data: RunData, thumbnails: Thumbnails, most_bytes: int = MOST_BYTES) -> None:
        self.run_data, self.thumbnails, self.most_bytes = run_data, thumbnails, most_bytes
        self.texts = Texts()
        self.bytes = 0
        self.found: list[dict[str, Any]] = []

    def add(self, row: Row, turns: Sequence[Row], judged: Sequence[Row] = ()) -> bool:
        """Add an episode (a row of ``EPISODES`` with ``kind``); false when the page is full."""
        if self.bytes >= self.most_bytes:
            return False
        held = len(self.texts.known)
        view = self._view(row, turns, judged)
        new = list(self.texts.known)[held:]
        self.bytes += len(json.dumps(view)) + sum(len(json.dumps(text)) for text in new)
        self.found.append(view)
        return True

    def _view(self, row: Row, turns: Sequence[Row], judged: Sequence[Row]) -> dict[str, Any]:
        sample = self.run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
        posed_turns, reason = asked(self.run_data, row, turns)
        shown = turns if len(turns) <= FIRST + LAST else [*turns[:FIRST], *turns[-LAST:]]
        names = ("key", "model", "scenario", "condition", "protocol", "ending", "kind")
        return {
            **{name: row[name] for name in names},
            "sample": row["sample_id"],
            "played": row["turns"],
            "seconds": round(row["seconds"], 3) if _plain(row["seconds"]) else None,
            "tokens": [row["prompt_tokens"], row["reply_tokens"]],
            **({"error": list(cut(row["error"], LONGEST_REPLY))} if row["error"] else {}),
            **({"answer": sample.answer, "limit": int(SCENARIOS[sample.scenario].limit(sample))} if sample else {}),
            **({"why": reason} if reason else {}),
            "turns": [self._turn(turn, posed_turns.get(turn["turn"])) for turn in shown],
            **({"judged": [_judged(one) for one in judged]} if judged else {}),
        }

    def _turn(self, turn: Row, asked: Posed | None) -> dict[str, Any]:
        reply, length = cut(turn["reply"] or "", LONGEST_REPLY)
        image = turn["image"] or ""
        edge = reference(image).short_edge
        return {
            "turn": turn["turn"], "frame": turn["frame"], "picture": self.thumbnails.place(image),
            "image": self.texts.place(cut(image, LONGEST_REPLY)[0]), "reply": self.texts.place(reply),
            **({"length": length} if length else {}),
            **({"edge": edge} if edge else {}),
            "option": turn["option"], "category": turn["category"], "action": turn["action"], "move": turn["move"],
            **(self._question(asked) if asked else {}),
        }  # fmt: skip

    def _question(self, asked: Posed) -> dict[str, Any]:
        return {
            "prompt": self.texts.place(asked.view.prompt),
            "options": [self.texts.place(text) for text in asked.view.options],
            "categories": [self.texts.place(text) for text in asked.view.categories],
            "answer": asked.answer, "asks": list(asked.asks), "said": list(asked.said),
        }  # fmt: skip


def asked(run_data: RunData, row: Row, turns: Sequence[Row]) -> tuple[dict[int, Posed], str]:
    """Turn of an episode -> what it asked, or nothing and the reason; of an open question both."""
    sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    condition = run_data.conditions.get(row["condition"])
    if not turns:
        return {}, ""
    if row["protocol"] == Protocol.OEG_MULTI:
        return _several(
            row, sample, condition, turns
        ), "open questions: no options were shown, and a judge read each answer"
    if row["protocol"] == Protocol.TOOLS:
        turns = [{**turn, "reply": turn["read_as"]} for turn in turns]
    elif row["protocol"] != "mcqa":
        return _openly(row, sample, condition), "an open question: no options were shown"
    if sample is None:
        return {}, "question and options are not shown: the data folder does not hold this sample as it was played"
    if condition is None:
        return {}, f"question and options are not shown: the sweep has no condition {row['condition']}"
    replayed = _replayed(staged(sample, condition, run_data.sweep.seed), condition, row["seed"], turns)
    if replayed is None:
        return {}, "question and options are not shown: playing the stored replies again gives other readings"
    return replayed, ""


def _openly(row: Row, sample: Sample | None, condition: Condition | None) -> dict[int, Posed]:
    """The one question of an open-ended episode, where the sample is at hand."""
    if sample is None or condition is None:
        return {}
    state = SCENARIOS[sample.scenario].initial(sample, condition.mode, row["seed"])
    return {0: _unasked(posed_openly(sample, state, condition))}


def _several(row: Row, sample: Sample | None, condition: Condition | None, turns: Sequence[Row]) -> dict[int, Posed]:
    """The questions of an open-ended episode of several turns, as far as what the judge read leads to the stored frames."""
    if sample is None or condition is None:
        return {}
    game, found = SCENARIOS[sample.scenario], dict[int, Posed]()
    state = game.initial(sample, condition.mode, row["seed"])
    for turn in turns:
        if state.ending is not None or state.frame != turn["frame"]:
            return found
        found[turn["turn"]] = _unasked(posed_openly(sample, state, condition))
        state, _ = game.step(sample, state, turn["read_as"] or "")
    return found


def _unasked(view: View) -> Posed:
    """A question without options."""
    return Posed(replace(view, options=(), categories=()), -1, (), (-1, -1))


def _replayed(sample: Sample, condition: Condition, seed: int, turns: Sequence[Row]) -> dict[int, Posed] | None:
    """What each stored reply answered; None when a reading differs from the stored one."""
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, seed)
    found: dict[int, Posed] = {}
    for turn in turns:
        reply = turn["reply"] or ""
        if state.ending is not None or state.frame != turn["frame"]:
            return None
        read = forgiven(sample, state, reply) if condition.lenient else reply
        found[turn["turn"]] = _asked(game, sample, state, posed(sample, state, condition), read)
        move = None if turn["move"] is None else Move(turn["move"]) if turn["move"] in set(Move) else None
        state, again = game.step(sample, state, read, move)
        if (again.option.value, again.category.value, again.action.value) != (
            turn["option"],
            turn["category"],
            turn["action"],
        ):
            return None
    return found


def _asked(game: Scenario, sample: Sample, state: State, view: View, reply: str) -> Posed:
    askable = set(game.askable(sample, state)) if view.options else set()
    text, mark = as_text(reply), as_letter(reply)
    said = (
        side(view.options, (), 0).read(text, mark).chosen,
        side(view.categories, (), len(view.options)).read(text, mark).chosen,
    )
    answer = view.categories.index(sample.answer) if game.answerable(sample, state) else -1
    return Posed(view, answer, tuple(n for n, option in enumerate(view.options) if option in askable), said)


def _judged(row: Row) -> dict[str, Any]:
    """What a reader wants of a verdict, texts cut."""
    return {
        name: list(cut(row[name], LONGEST_REPLY)) if isinstance(row[name], str) else row[name]
        for name in VERDICT
        if _plain(row.get(name))
    }


def _plain(value: Any) -> bool:
    """Whether JSON can hold it."""
    return isfinite(value) if isinstance(value, float) else isinstance(value, str | int)


def rows_of(table: pl.LazyFrame, keys: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Key -> its rows, in the order of the table."""
    wanted = key_frame(keys).lazy()
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.join(wanted, on="key", how="semi").collect().iter_rows(named=True):
        found.setdefault(row["key"], []).append(row)
    return found
