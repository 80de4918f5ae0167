"""The shipped adapter is small, names no build machine, and makes the model ask."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("peft", reason="the package peft is not installed")

from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch
from envs import SCENARIOS
from envs.types import Action
from orchestrator.learning.states import load_states
from sweeps.package_models import resolve_source
from sweeps.registry import registry

FOLDER = Path(__file__).parents[3] / "actors" / "embedded" / "adapter-asks"


def test_the_folder_is_small_and_names_no_machine():
    files = sorted(FOLDER.iterdir())

    assert [file.name for file in files] == ["MODEL_CARD.md", "adapter_config.json", "adapter_model.safetensors"]
    assert sum(file.stat().st_size for file in files) < 1_000_000
    assert json.loads((FOLDER / "adapter_config.json").read_text())["base_model_name_or_path"] is None


@pytest.mark.slow
def test_adapter_asks_only_where_nothing_is_visible(demo_data):
    states = load_states(demo_data, tuple(SCENARIOS), None, 0)
    hidden, clear = ([state for state in states if state.kind == kind] for kind in ("hidden", "clear"))
    before, after = (ModelAndProcessor(resolve_source(registry()[name])) for name in ("embedded", "embedded-asks"))

    assert count_asks(after, hidden) >= count_asks(before, hidden) + 15
    assert count_asks(after, clear) <= 2


def count_asks(model, states):
    """Count the states (of 70) at which the model asks for help."""
    jobs = [state.job() for state in states]
    replies = model.replies(PreparedBatch(jobs, model.inputs(jobs)))
    return sum(s.outcome(r.text).action is Action.SUGGESTION for s, r in zip(states, replies, strict=True))
