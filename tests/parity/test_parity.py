"""Our game agrees with the published package on every transition of more than 5,000 recorded episodes.

Recorded by ``record.py`` from ``proactivebench`` 0.1.1; replayed here without it.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envs import SCENARIOS
from envs.sample_line import parse_sample
from envs.types import Ending, Mode, Move, Sample, State

TRACES = Path(__file__).with_name("traces.jsonl.xz")
NAMED = {
    "id", "prompt", "options", "categories", "answer", "image_template", "first_image", "num_images", "reference_image",
}  # fmt: skip


def sample(scenario: str, entry: dict[str, Any]) -> Sample:
    extra = {name: value for name, value in entry.items() if name not in NAMED}
    return Sample(
        scenario, entry["id"], entry["prompt"], tuple(entry["options"]), tuple(entry["categories"]), entry["answer"],
        entry["image_template"], entry["first_image"], entry["num_images"], entry["reference_image"], extra,
    )  # fmt: skip


@cache
def load_traces() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for line in lzma.decompress(TRACES.read_bytes()).decode().split("\n") if line)


def smooth(scenario: str) -> list[dict[str, Any]]:
    return [trace for trace in load_traces() if trace["scenario"] == scenario and "raises" not in trace]


def mode(trace: dict[str, Any]) -> Mode:
    return Mode.REFERENCE if "reference" in trace["mode"] else Mode.RANDOM if trace["mode"] == "random" else Mode.PLAY


def replay(trace: dict[str, Any]) -> tuple[list[dict[str, Any]], State]:
    """Replay the recorded replies in our game; return the turns in the package's format, and the last state."""
    game, entry = SCENARIOS[trace["scenario"]], sample(trace["scenario"], trace["entry"])
    state, turns = game.initial(entry, mode(trace)), []
    for recorded_turn in trace["turns"]:
        view = game.view(entry, state, "hint" in trace["mode"])
        state, turn = game.step(
            entry, state, recorded_turn["answer"], Move(recorded_turn["move"]) if recorded_turn["move"] else None
        )
        crop = view.image.crop
        turns.append(
            {
                "image": view.image.path, "op": None if crop is None else ["crop", *crop], "prompt": view.prompt,
                "options": [*view.options, *view.categories], "answer": recorded_turn["answer"], "action": turn.option.value,
                "category": turn.category.value, "move": turn.move and turn.move.value,
            }
        )  # fmt: skip
    return turns, state


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_recorded_episode_replays_to_the_last_bit(scenario):
    for trace in smooth(scenario):
        turns, state = replay(trace)

        assert turns == trace["turns"]
        assert state.turn == trace["num_turns"]
        assert (state.ending is Ending.CORRECT) == trace["correct"]
        assert (state.ending is not None) == trace["stopped"]
        limit = SCENARIOS[scenario].limit(sample(scenario, trace["entry"]))
        assert (state.turn == limit) == trace["max_steps"]


def test_unusual_lines_that_package_plays_are_accepted():
    """docs/decisions/0001; that the episodes agree is the test above."""
    unusual = [trace for trace in load_traces() if "unusual" in trace]
    kinds = Counter(trace["unusual"] for trace in unusual)
    assert len(kinds) == 7 and min(kinds.values()) >= 30, kinds
    for trace in unusual:
        assert parse_sample(json.dumps(trace["entry"]), trace["scenario"]).id == trace["entry"]["id"]


def test_record_is_large_and_varied():
    traces = [trace for scenario in SCENARIOS for trace in smooth(scenario)]
    verdicts = Counter((turn["action"], turn["category"]) for trace in traces for turn in trace["turns"])

    assert len(traces) >= 5_000
    assert sum(trace["max_steps"] for trace in traces) > 500, "many must run to their limit"
    assert max(trace["num_turns"] for trace in traces) >= 40
    assert {trace["mode"] for trace in traces} == {"play", "hint", "reference", "reference hint", "random"}
    assert len(verdicts) >= 7 and min(verdicts.values()) > 2, verdicts


def test_we_play_on_where_the_package_raises():
    """docs/decisions/0001: no reply and no valid line may crash a sweep."""
    raising = [trace for trace in load_traces() if "raises" in trace]
    assert raising
    for trace in raising:
        turns, state = replay(trace)
        assert turns == trace["turns"]
        if "said" in trace and state.ending is None:
            game, entry = SCENARIOS[trace["scenario"]], sample(trace["scenario"], trace["entry"])
            after, _ = game.step(entry, state, trace["said"])
            assert after.turn == state.turn + 1
