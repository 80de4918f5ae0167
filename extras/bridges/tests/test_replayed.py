"""Recorded episodes replay through the real Inspect and verifiers to the same conversations, transitions and scores.

Both want other versions of packages than this environment may have: ``INSPECT_PYTHON`` and ``VERIFIERS_PYTHON`` name the
interpreter of an environment with ``pip install 'inspect_ai>=0.3.285'`` or ``'verifiers>=0.4'``, core and bridges.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean

import pytest
from packaging.version import Version
from replayed import CONDITIONS, record_episodes

ROOT = Path(__file__).parents[3]
SAMPLES = 2
"""Of each scenario, condition and policy."""
POLICIES = ("oracle", "always-ask", "uniform")

pytestmark = [pytest.mark.slow, pytest.mark.long]


def find_python(package: str, oldest: str) -> str:
    """Return an interpreter with the package."""
    if configured := os.environ.get(f"{package.split('_')[0].upper()}_PYTHON"):
        return configured
    try:
        installed = version(package)
    except PackageNotFoundError:
        installed = "0"
    if Version(installed) < Version(oldest):
        pytest.skip(f"{package} {oldest} is not installed: {package.split('_')[0].upper()}_PYTHON names an interpreter")
    return sys.executable


def replay(python, script, episodes, data, folder):
    """Play the recorded replies in another process; return what it printed of each episode, in their order."""
    requests = [
        {"scenario": e.scenario, "condition": e.condition, "policy": e.policy, "sample": e.sample,
         "replies": [turn["reply"] for turn in e.turns]}
        for e in episodes
    ]  # fmt: skip
    (folder / "episodes.json").write_text(json.dumps(requests))
    paths = (ROOT, ROOT / "extras" / "bridges", Path(__file__).parent)
    process = subprocess.run(
        [python, "-m", script, str(folder / "episodes.json"), str(data), str(folder / "logs")],
        cwd=ROOT, capture_output=True, text=True, timeout=500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )  # fmt: skip
    outcomes = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    assert process.returncode == 0 and len(outcomes) == len(episodes), process.stderr[-2000:]
    for episode, outcome in zip(episodes, outcomes, strict=True):
        where = (episode.scenario, episode.condition, episode.policy, episode.sample)
        turns = [[turn[name] for name in ("frame", "option", "category", "action", "move")] for turn in episode.turns]
        assert (outcome["turns"], outcome["ending"]) == (turns, episode.ending), where
        sent = [[[m.role, m.text, len(m.images)] for m in turn["sent"]] for turn in episode.turns]
        assert outcome["sent"] == sent, where
    return outcomes


@pytest.fixture(scope="module")
def recorded(demo_data, tmp_path_factory):
    """Episodes by condition, as verifiers is asked for them, that end in every way."""
    episodes = record_episodes(demo_data, tmp_path_factory.mktemp("runs"), POLICIES, SAMPLES)
    assert len(episodes) == 7 * len(CONDITIONS) * len(POLICIES) * SAMPLES
    assert {episode.ending for episode in episodes} == {"correct", "wrong", "limit"}
    return episodes


def test_verifiers_plays_the_same_episodes(recorded, demo_data, tmp_path):
    outcomes = replay(find_python("verifiers", "0.4"), "verifiers_replay", recorded, demo_data, tmp_path)

    for episode, outcome in zip(recorded, outcomes, strict=True):
        assert outcome["ok"] and not outcome["errors"], outcome["errors"]
        asks = sum(turn["action"] == "suggestion" for turn in episode.turns)
        assert outcome["rewards"] == {"right": float(episode.ending == "correct")}
        assert outcome["metrics"] == {"suggestions": asks, "turns": len(episode.turns)}


def test_inspect_plays_the_same_episodes(recorded, demo_data, tmp_path):
    outcomes = replay(find_python("inspect_ai", "0.3.285"), "inspect_replay", recorded, demo_data, tmp_path)

    for episode, outcome in zip(recorded, outcomes, strict=True):
        asked = any(turn["action"] == "suggestion" for turn in episode.turns)
        assert outcome["status"] == "success" and outcome["pictures"] == len(episode.turns)
        assert outcome["score"] == {
            "correct": episode.ending == "correct", "asked": asked, "suggestions": len(episode.turns) - 1
        }  # fmt: skip
        group = [e for e in recorded if (e.condition, e.policy) == (episode.condition, episode.policy)]
        by_scenario = {
            name: mean(e.ending == "correct" for e in group if e.scenario == name)
            for name in {e.scenario for e in group}
        }
        correct = outcome["metrics"]["correct"]
        assert {name: correct[f"grouped_{name}"] for name in by_scenario} == by_scenario
        assert correct["grouped_mean"] == pytest.approx(mean(by_scenario.values()))
