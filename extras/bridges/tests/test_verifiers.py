"""Recorded episodes replay through the real verifiers, loaders, interception and scoring, to the same transitions and rewards.

verifiers wants other versions of packages than this environment has (openai), so its interpreter is another one: the one that
``VERIFIERS_PYTHON`` names (``pip install 'verifiers>=0.4'`` in a new environment), or this one where it has verifiers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from replayed import CONDITIONS, record_episodes

ROOT = Path(__file__).parents[3]
FOLDERS = (ROOT, ROOT / "extras" / "bridges", Path(__file__).parent)
SAMPLES = 2
"""Of each scenario, condition and policy."""

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def python() -> str:
    """An interpreter with verifiers."""
    if configured := os.environ.get("VERIFIERS_PYTHON"):
        return configured
    if find_spec("verifiers") is None:
        pytest.skip("verifiers is not installed: VERIFIERS_PYTHON names an interpreter that has it")
    return sys.executable


def test_recorded_episodes_replay_through_verifiers(python, demo_data, tmp_path):
    episodes = record_episodes(demo_data, tmp_path / "runs", ("oracle", "always-ask", "uniform"), SAMPLES)
    requests = [
        {"scenario": episode.scenario, "condition": episode.condition, "sample": episode.sample,
         "replies": [turn["reply"] for turn in episode.turns]}
        for episode in episodes
    ]  # fmt: skip
    (tmp_path / "episodes.json").write_text(json.dumps(requests))
    command = [python, "-m", "verifiers_replay", tmp_path / "episodes.json", demo_data]
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, FOLDERS))},
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    assert done.returncode == 0 and len(outcomes) == len(episodes) == 7 * len(CONDITIONS) * 3 * SAMPLES, done.stderr[
        -2000:
    ]
    for episode, outcome in zip(
        sorted(episodes, key=lambda episode: CONDITIONS.index(episode.condition)), outcomes, strict=True
    ):
        where = (episode.scenario, episode.condition, episode.sample)
        assert outcome["ok"] and not outcome["errors"], (where, outcome["errors"])
        turns = [[turn[name] for name in ("frame", "option", "category", "action", "move")] for turn in episode.turns]
        assert (outcome["turns"], outcome["ending"]) == (turns, episode.ending), where
        sent = [[[m.role, m.text, len(m.images)] for m in turn["sent"]] for turn in episode.turns]
        assert outcome["sent"] == sent, where
        asks = sum(turn["action"] == "suggestion" for turn in episode.turns)
        assert outcome["rewards"] == {"right": float(episode.ending == "correct")}, where
        assert outcome["metrics"] == {"suggestions": asks, "turns": len(turns)}, where
    assert {episode.ending for episode in episodes} == {"correct", "wrong", "limit"}
