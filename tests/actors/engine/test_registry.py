"""An entry opens the backend that it names; a missing package and a model without stages are one sentence each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.engine import registry
from actors.engine.backend import ScriptedBackend
from actors.engine.baselines import Baseline
from actors.engine.openai.backend import OpenAIBackend
from actors.engine.registry import open_engine
from sweeps.spec import ModelSpec


def model(backend: str = "vllm", **fields: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "no/such", "backend": backend, **fields})


def test_entries_open_what_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    policy = open_engine(model("builtin", source="builtin:always-ask"), tmp_path)

    assert isinstance(policy, Baseline) and policy.name == "always-ask"
    assert type(open_engine(model("openai"), tmp_path)) is OpenAIBackend
    with pytest.raises(ValueError, match=r"^m is a person, who plays with `proactive-sweep play`, not in a sweep$"):
        open_engine(model("human"), tmp_path)


@pytest.mark.parametrize("module", ["actors.engine.hf.backend", "actors.engine.vllm.backend"])
def test_local_engines_are_imported_only_when_they_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """An import that is blocked fails as one that is not installed."""
    monkeypatch.setitem(sys.modules, module, None)
    backend = "transformers" if ".hf." in module else "vllm"
    with pytest.raises(ModuleNotFoundError, match=f"import of {module} halted"):
        open_engine(model(backend), tmp_path)


def test_prompts_are_read_offline_and_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry's own options stay; variables that the user has set, too."""
    opened: list[ModelSpec] = []
    backend = ScriptedBackend(lambda request: "A")
    monkeypatch.setattr(registry, "open_engine", lambda entry, data: opened.append(entry) or backend)
    for name in ("HF_HUB_OFFLINE", "VLLM_LOGGING_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "info")
    entry = model("transformers", options={"batch": 4})

    assert registry.open_without_weights(entry, tmp_path) is backend
    assert opened == [model("transformers", options={"batch": 4, "device_map": "meta"})]
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_VERBOSITY", "VLLM_LOGGING_LEVEL")
    assert [os.environ.get(name) for name in names] == ["1", "info", "ERROR"]
    monkeypatch.setitem(sys.modules, "actors.engine.vllm.token_input", None)
    with pytest.raises(ModuleNotFoundError, match=r"token_input halted"):
        registry.open_without_weights(model(), tmp_path)
    assert len(opened) == 1
