"""One episode as the browser shows it: its pictures, questions, options and replies.

The store holds replies, not options. The sample is loaded from the data folder and its stored replies are played through the
game again; question and options are shown only if that gives the stored readings; otherwise the view gives a reason.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import polars as pl

from actors.playing.prompts import apply_condition, open_view, turn_view
from envs import SCENARIOS
from envs.answers import as_letter, as_text, option_table
from envs.lenient import repair_reply
from envs.types import Move, Sample, State, View
from orchestrator.film_strip.thumbnails import Thumbnails, parse_image_key
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


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """The question of a turn, from playing the episode again."""

    view: View
    answer: int = -1
    """Index of the right category; -1 while no category counts as right."""
    asks: tuple[int, ...] = ()
    """Indexes of the suggestions that count now."""
    said: tuple[int, int] = (-1, -1)
    """Indexes of the suggestion and of the category that the reply names; -1 for a side that it does not name."""


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
        "tokens": [row["prompt_tokens"], row["reply_tokens"]],
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
    if condition is None:
        return {}, f"{NOT_SHOWN}: the sweep has no condition {row['condition']}"
    replayed = _replay(apply_condition(sample, condition, run_data.sweep.seed), condition, row, turns)
    is_equal = len(replayed) == len(turns)
    return (replayed, "") if is_equal else ({}, f"{NOT_SHOWN}: playing the stored replies again gives other readings")


def _replay(sample: Sample, condition: Condition, row: Row, turns: Sequence[Row]) -> dict[int, ReplayedTurn]:
    """Return the question that each stored reply answered, up to the first turn whose stored frame or reading differs."""
    game, questions = SCENARIOS[sample.scenario], dict[int, ReplayedTurn]()
    state, is_open = game.initial(sample, condition.mode, row["seed"]), row["protocol"] in OPEN
    column = "read_as" if is_open or row["protocol"] == Protocol.TOOLS else "reply"
    for turn in turns[:1] if row["protocol"] == Protocol.OEG else turns:
        reply = turn[column] or ""
        if state.ending is not None or state.frame != turn["frame"]:
            break
        if is_open:
            question = ReplayedTurn(open_view(sample, state, condition)._replace(options=(), categories=()))
            state, _ = game.step(sample, state, reply)
        else:
            reading = repair_reply(sample, state, reply) if condition.lenient else reply
            question = _question(sample, state, condition, reading)
            move = Move(turn["move"]) if turn["move"] in set(Move) else None
            state, again = game.step(sample, state, reading, move)
            readings = again.option.value, again.category.value, again.action.value
            if readings != (turn["option"], turn["category"], turn["action"]):
                break
        questions[turn["turn"]] = question
    return questions


def _question(sample: Sample, state: State, condition: Condition, reading: str) -> ReplayedTurn:
    """Return the question at a state, with what counts there and what the reading names."""
    game, view = SCENARIOS[sample.scenario], turn_view(sample, state, condition)
    askable = set(game.askable(sample, state)) if view.options else set()
    asks = tuple(n for n, option in enumerate(view.options) if option in askable)
    text, letter = as_text(reading), as_letter(reading)
    sides = ((view.options, 0), (view.categories, len(view.options)))
    suggestion, category = (option_table(side, (), first).read(text, letter).chosen for side, first in sides)
    answer = view.categories.index(sample.answer) if game.answerable(sample, state) else -1
    return ReplayedTurn(view, answer, asks, (suggestion, category))


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
    rows: dict[str, list[dict[str, Any]]] = {}
    names = pl.Series(list(keys), dtype=pl.String).implode()
    for row in table.filter(pl.col("key").is_in(names)).collect().iter_rows(named=True):
        rows.setdefault(row["key"], []).append(row)
    return rows
