"""One episode as the browser shows it: its pictures, questions, options and replies.

The store holds replies, not options. The sample is loaded from the data folder and its stored replies are played through the
game again; question and options are shown only if that gives the stored readings; otherwise the view gives a reason.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition, open_view, turn_view
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.lenient import repair_reply
from envs.scenario import Scenario
from envs.types import Move, Sample, State, View
from orchestrator.report.html.text import cut
from orchestrator.report.html.thumbnails import Thumbnails, parse_image_key
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row
from sweeps.conditions import Condition
from sweeps.protocol import Protocol

LONGEST_REPLY = 2_000
"""Most characters of a reply, an error or a judge's reasoning that a page holds."""
FIRST, LAST = 16, 4
"""Turns of a long episode that are shown, from its beginning and from its end."""
VERDICT = ("judge", "category", "suggestion", "aggregate", "reason", "attempts", "text")
"""Columns of a verdict that are shown."""
CHUNK = 2_000
"""Number of episodes whose turns are read at once."""
MOST_BYTES = 5_000_000
"""Most bytes of all views of a page, without pictures."""


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """The question of a turn, from playing the episode again."""

    view: View
    answer: int
    """Index of the right category; -1 while no category counts as right."""
    asks: tuple[int, ...]
    """Indexes of the suggestions that count now."""
    said: tuple[int, int]
    """Indexes of the suggestion and of the category that the reply names; -1 for a side that it does not name."""


class EpisodeViews:
    """The episodes of one page, up to its limit on bytes."""

    def __init__(self, run_data: RunData, thumbnails: Thumbnails, most_bytes: int = MOST_BYTES) -> None:
        self.run_data, self.thumbnails, self.most_bytes = run_data, thumbnails, most_bytes
        self.texts: dict[str, int] = {}
        """Text -> its number; turns share texts."""
        self.bytes = 0
        self.views: list[dict[str, Any]] = []

    def add(self, row: Row, turns: Sequence[Row], verdicts: Sequence[Row] = ()) -> bool:
        """Add an episode (a row of the store with ``kind``); return False when the page is full."""
        if self.bytes >= self.most_bytes:
            return False
        before = len(self.texts)
        view = self._view(row, turns, verdicts)
        self.bytes += len(json.dumps(view)) + sum(len(json.dumps(text)) for text in islice(self.texts, before, None))
        self.views.append(view)
        return True

    def _view(self, row: Row, turns: Sequence[Row], verdicts: Sequence[Row]) -> dict[str, Any]:
        sample = self.run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
        questions, reason = replay_episode(self.run_data, row, turns)
        excerpt = turns if len(turns) <= FIRST + LAST else [*turns[:FIRST], *turns[-LAST:]]
        names = ("key", "model", "scenario", "condition", "protocol", "ending", "kind")
        return {
            **{name: row[name] for name in names},
            "sample": row["sample_id"],
            "played": row["turns"],
            "seconds": round(row["seconds"], 3) if _is_plain(row["seconds"]) else None,
            "tokens": [row["prompt_tokens"], row["reply_tokens"]],
            **({"error": list(cut(row["error"], LONGEST_REPLY))} if row["error"] else {}),
            **({"answer": sample.answer, "limit": int(SCENARIOS[sample.scenario].limit(sample))} if sample else {}),
            **({"why": reason} if reason else {}),
            "turns": [self._turn(turn, questions.get(turn["turn"])) for turn in excerpt],
            **({"judged": [_verdict(verdict) for verdict in verdicts]} if verdicts else {}),
        }

    def _turn(self, turn: Row, question: ReplayedTurn | None) -> dict[str, Any]:
        reply, length = cut(turn["reply"] or "", LONGEST_REPLY)
        thoughts = turn.get("thoughts")
        image = turn["image"] or ""
        edge = parse_image_key(image).short_edge
        return {
            "turn": turn["turn"], "frame": turn["frame"], "picture": self.thumbnails.number(image),
            "image": self._text_number(cut(image, LONGEST_REPLY)[0]), "reply": self._text_number(reply),
            **({"length": length} if length else {}),
            **({"edge": edge} if edge else {}),
            **({"thoughts": self._text_number(cut(thoughts, LONGEST_REPLY)[0])} if thoughts else {}),
            "option": turn["option"], "category": turn["category"], "action": turn["action"], "move": turn["move"],
            **(self._question(question) if question else {}),
        }  # fmt: skip

    def _text_number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _question(self, question: ReplayedTurn) -> dict[str, Any]:
        return {
            "prompt": self._text_number(question.view.prompt),
            "options": [self._text_number(text) for text in question.view.options],
            "categories": [self._text_number(text) for text in question.view.categories],
            "answer": question.answer, "asks": list(question.asks), "said": list(question.said),
        }  # fmt: skip


def replay_episode(run_data: RunData, row: Row, turns: Sequence[Row]) -> tuple[dict[int, ReplayedTurn], str]:
    """Return the question of each turn, and the reason why questions or options are missing; empty if none are."""
    sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
    condition = run_data.conditions.get(row["condition"])
    if not turns:
        return {}, ""
    if row["protocol"] == Protocol.OEG_MULTI:
        questions = _open_questions(row, sample, condition, turns)
        return questions, "open questions: no options were shown, and a judge read each answer"
    if row["protocol"] == Protocol.TOOLS:
        turns = [{**turn, "reply": turn["read_as"]} for turn in turns]
    elif row["protocol"] != "mcqa":
        return _open_questions(row, sample, condition, turns[:1]), "an open question: no options were shown"
    if sample is None:
        return {}, "question and options are not shown: the data folder does not hold this sample as it was played"
    if condition is None:
        return {}, f"question and options are not shown: the sweep has no condition {row['condition']}"
    replayed = _replay(apply_condition(sample, condition, run_data.sweep.seed), condition, row["seed"], turns)
    if replayed is None:
        return {}, "question and options are not shown: playing the stored replies again gives other readings"
    return replayed, ""


def _open_questions(
    row: Row, sample: Sample | None, condition: Condition | None, turns: Sequence[Row]
) -> dict[int, ReplayedTurn]:
    """Return the questions of an open-ended episode, up to the first turn whose stored frame differs from the replayed one."""
    if sample is None or condition is None:
        return {}
    game, questions = SCENARIOS[sample.scenario], dict[int, ReplayedTurn]()
    state = game.initial(sample, condition.mode, row["seed"])
    for turn in turns:
        if state.ending is not None or state.frame != turn["frame"]:
            return questions
        view = open_view(sample, state, condition)._replace(options=(), categories=())
        questions[turn["turn"]] = ReplayedTurn(view, -1, (), (-1, -1))
        state, _ = game.step(sample, state, turn["read_as"] or "")
    return questions


def _replay(sample: Sample, condition: Condition, seed: int, turns: Sequence[Row]) -> dict[int, ReplayedTurn] | None:
    """Return the question that each stored reply answered; None when a reading differs from the stored one."""
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, seed)
    questions: dict[int, ReplayedTurn] = {}
    for turn in turns:
        reply = turn["reply"] or ""
        if state.ending is not None or state.frame != turn["frame"]:
            return None
        reading = repair_reply(sample, state, reply) if condition.lenient else reply
        questions[turn["turn"]] = _question(game, sample, state, turn_view(sample, state, condition), reading)
        move = Move(turn["move"]) if turn["move"] in set(Move) else None
        state, replayed = game.step(sample, state, reading, move)
        readings = (replayed.option.value, replayed.category.value, replayed.action.value)
        if readings != (turn["option"], turn["category"], turn["action"]):
            return None
    return questions


def _question(game: Scenario, sample: Sample, state: State, view: View, reply: str) -> ReplayedTurn:
    askable = set(game.askable(sample, state)) if view.options else set()
    text, letter = as_text(reply), as_letter(reply)
    indexes = (
        option_table(view.options, (), 0).read(text, letter).chosen,
        option_table(view.categories, (), len(view.options)).read(text, letter).chosen,
    )
    answer = view.categories.index(sample.answer) if game.answerable(sample, state) else -1
    return ReplayedTurn(view, answer, tuple(n for n, option in enumerate(view.options) if option in askable), indexes)


def _verdict(row: Row) -> dict[str, Any]:
    """Return the shown columns of a verdict, texts cut."""
    return {
        name: list(cut(row[name], LONGEST_REPLY)) if isinstance(row[name], str) else row[name]
        for name in VERDICT
        if _is_plain(row.get(name))
    }


def _is_plain(value: Any) -> bool:
    """Return True if JSON can hold the value."""
    return isfinite(value) if isinstance(value, float) else isinstance(value, str | int)


def episodes_with_turns(run_data: RunData, episodes: pl.DataFrame) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    """Yield each episode with its turns; those of ``CHUNK`` episodes are in memory at once."""
    for chunk in episodes.iter_slices(CHUNK):
        turns = rows_by_key(run_data.turns, chunk["key"])
        yield from ((row, turns.get(row["key"], [])) for row in chunk.iter_rows(named=True))


def rows_by_key(table: pl.LazyFrame, keys: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each key, in the order of the table."""
    rows: dict[str, list[dict[str, Any]]] = {}
    wanted = pl.col("key").is_in(
        pl.Series(list(keys), dtype=pl.String).implode()
    )  # pushed down, so that one key is fast
    for row in table.filter(wanted).collect().iter_rows(named=True):
        rows.setdefault(row["key"], []).append(row)
    return rows
