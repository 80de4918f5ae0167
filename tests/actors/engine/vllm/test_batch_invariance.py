"""Batch invariance is part of the key; an entry that needs it on an unsupported machine is refused in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.engine.vllm.batch_invariance import VARIABLE, enable_batch_invariance
from sweeps.load import SweepError, build
from sweeps.spec import ModelSpec

HOPPER, TURING = (9, 0), (7, 5)


def entry(**fields) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", "options": {"batch_invariant": True}, **fields})


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.setenv(VARIABLE, "0")


def test_the_mode_is_part_of_the_key_and_its_absence_is_not():
    assert entry().identity["options"] == {"batch_invariant": True}
    assert "options" not in entry(options={}).identity


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"backend": "transformers"}, "batch_invariant is a mode of vLLM, and backend is transformers"),
        ({"options": {"batch_invariant": False}}, "batch_invariant = False is no choice; write true"),
        ({"options": {"batch_invariant": 1}}, "batch_invariant = 1 is no choice"),
    ],
)
def test_unsupported_entry_is_refused_on_load(change, sentence):
    model = {"name": "m", "source": "org/m", "options": {"batch_invariant": True}, **change}
    with pytest.raises(SweepError, match=sentence):
        build({"name": "t", "data": "d", "models": ["m"], "model": [model]}, "a test")


def test_mode_is_set_on_capable_gpus_only_with_option(unset):
    enable_batch_invariance(entry(options={}), [TURING])
    assert os.environ[VARIABLE] == "0"
    enable_batch_invariance(entry(), [HOPPER, HOPPER])
    assert os.environ[VARIABLE] == "1"


def test_mode_is_checked_before_vllm_import():
    code = (
        "import sys; from actors.engine.registry import open_engine; from pathlib import Path\n"
        "from sweeps.spec import ModelSpec\n"
        "model = ModelSpec(name='m', source='org/m', gpus=0, options={'batch_invariant': True})\n"
        "try:\n open_engine(model, Path('.'))\nexcept ValueError as why:\n print(why, 'vllm' in sys.modules)"
    )
    root = Path(__file__).parents[4]
    output = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert output.strip().endswith("remove it, or run it where it is available False") and "gpus = 0" in output
