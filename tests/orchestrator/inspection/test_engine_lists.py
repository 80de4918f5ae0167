"""The architectures of an engine are those of its installed registry, else of a list that ships."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.inspection import architectures as lists
from sweeps.checkpoint import Checkpoint

FILES = {
    "vllm": ("model_executor/models/registry.py",
             ("_MULTIMODAL_MODELS", "_TEXT_GENERATION_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")),
    "transformers": ("models/auto/modeling_auto.py",
                     ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
                      "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")),
}  # fmt: skip
"""Engine -> its file, and the tables of it that count."""


def install(engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str | None = None) -> Path:
    """Write an engine's package with a class per table, and let it be found alone."""
    file, tables = FILES[engine]
    path = folder / engine / file
    path.parent.mkdir(parents=True)
    lines = [
        f'{name} = {{"key": "Class{number}", "other": ("small", "Pair{number}")}}' for number, name in enumerate(tables)
    ]
    path.write_text(
        "\n".join([*lines, 'OTHER = {"key": "Odd"}', f'{tables[0]}: dict = {{"a": "Noted"}}']) if text is None else text
    )
    spec = SimpleNamespace(origin=str(folder / engine / "__init__.py"))
    monkeypatch.setattr(lists.importlib.util, "find_spec", lambda name: spec if name == engine else None)
    lists.architectures.cache_clear()
    return path


@pytest.fixture(autouse=True)
def fresh():
    yield
    lists.architectures.cache_clear()


@pytest.mark.parametrize("engine", FILES)
def test_an_installed_engine_is_read(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(engine, tmp_path, monkeypatch)
    names = {f"{kind}{number}" for kind in ("Class", "Pair") for number in range(3)} | {"Noted"}
    assert lists.architectures(engine) == (names, f"by the installed {engine}")
    assert lists.engine_cell(engine, "Pair2") == "ok: Pair2"
    assert lists.engine_cell(engine, "Odd") == f"no: {engine} does not run Odd (by the installed {engine})"


@pytest.mark.parametrize("text", ["", "x = (", "a = {'b': 'C'}"])
def test_a_registry_that_cannot_be_read_leaves_the_list(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = install("vllm", tmp_path, monkeypatch, text)
    assert lists.architectures("vllm") == (lists.VLLM, "by a list; vllm is not installed")
    path.unlink()
    lists.architectures.cache_clear()
    assert lists.architectures("vllm")[0] == lists.VLLM


def test_without_engines_an_unlisted_class_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists.importlib.util, "find_spec", lambda name: None)
    lists.architectures.cache_clear()
    assert lists.engine_cell("vllm", "Odd") == "unknown: Odd (by a list; vllm is not installed)"
    only = "InstructBlipForConditionalGeneration"
    assert lists.engine_cell("vllm", only) == f"ok: {only}, by vLLM's transformers backend"
    assert lists.engine_cell("transformers", only) == f"ok: {only}" and only not in lists.VLLM
    assert {"Phi4MMForCausalLM", "InternVLChatModel", "MolmoForCausalLM", "MiniCPMV"} <= lists.VLLM - lists.TRANSFORMERS
    assert {
        only, "Blip2ForConditionalGeneration", "Phi4MultimodalForCausalLM",
    } == lists.TRANSFORMERS - lists.VLLM  # fmt: skip
    assert lists.engine_has_template(Checkpoint({})) is True


def test_vllm_has_templates_by_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("vllm", tmp_path, monkeypatch)
    checkpoint = Checkpoint({"model_type": "llava"})
    assert lists.engine_has_template(checkpoint) is True, "its list cannot be read"
    path = tmp_path / "vllm/transformers_utils/chat_templates/registry.py"
    path.parent.mkdir(parents=True)
    for text, known in (('"llava": x', True), ('"llava2": x', False), ('"other"', False)):
        path.write_text(text)
        assert lists.engine_has_template(checkpoint) is known
