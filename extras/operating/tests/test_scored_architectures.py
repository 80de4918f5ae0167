"""Scored replies of every architecture are those of a forward pass."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from tests.actors.newer_architectures import EVERY
from tests.actors.rehearsed import run_rehearsal

PROGRAM = (str(Path(__file__).with_name("rehearsal_scores.py")),)


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_the_cache_of_a_prompt_continued_by_several_replies_changes_no_probability(
    tmp_path: Path, demo_data: Path
) -> None:
    tasks = [f"scores:{name}" for name in EVERY]
    outcomes = run_rehearsal(tasks, tmp_path, demo_data, 1500, PROGRAM)
    assert outcomes.keys() == set(tasks)
    for task, outcome in outcomes.items():
        assert outcome.get("gaps") and max(outcome["gaps"].values()) < 1e-4, (task, outcome)
