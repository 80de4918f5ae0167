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

from tests.orchestrator.environments.replayed import CONDITIONS, recorded

ROOT = Path(__file__).parents[3]
SAMPLES = 2
"""Of each scenario, condition and policy."""

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def python() -> str:
    """An interpreter with verifiers."""
    if named := os.environ.get("VERIFIERS_PYTHON"):
        return named
    if find_spec("verifiers") is None:
        pytest.skip("verifiers is not installed: VERIFIERS_PYTHON names an interpreter that has it")
    return sys.executable


def test_recorded_episodes_replay_through_verifiers(python, demo_data, tmp_path):
    mine = recorded(demo_data, tmp_path / "runs", ("oracle", "always-ask", "uniform"), SAMPLES)
    asked = [
        {"scenario": one.scenario, "condition": one.condition, "sample": one.sample,
         "replies": [turn["reply"] for turn in one.turns]}
        for one in mine
    ]  # fmt: skip
    (tmp_path / "episodes.json").write_text(json.dumps(asked))
    command = [python, "-m", "tests.orchestrator.environments.verifiers_replay", tmp_path / "episodes.json", demo_data]
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    assert done.returncode == 0 and len(found) == len(mine) == 7 * len(CONDITIONS) * 3 * SAMPLES, done.stderr[-2000:]
    for one, played in zip(sorted(mine, key=lambda one: CONDITIONS.index(one.condition)), found, strict=True):
        where = (one.scenario, one.condition, one.sample)
        assert played["ok"] and not played["errors"], (where, played["errors"])
        turns = [[turn[name] for name in ("frame", "option", "category", "action", "move")] for turn in one.turns]
        assert (played["turns"], played["ending"]) == (turns, one.ending), where
        sent = [[[m.role, m.text, len(m.images)] for m in turn["sent"]] for turn in one.turns]
        assert played["sent"] == sent, where
        asks = sum(turn["action"] == "suggestion" for turn in one.turns)
        assert played["rewards"] == {"right": float(one.ending == "correct")}, where
        assert played["metrics"] == {"suggestions": asks, "turns": len(turns)}, where
    assert {one.ending for one in mine} == {"correct", "wrong", "limit"}
