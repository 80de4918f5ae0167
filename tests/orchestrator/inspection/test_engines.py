"""Engines, packages, and entries: what a machine has, and what a name stands for."""

import sys

import pytest

from orchestrator.inspection import engines
from sweeps.checkpoint import Checkpoint
from sweeps.load import SweepError
from sweeps.own_model import find_models
from sweeps.registry import registry
from sweeps.spec import ModelSpec


def model(**entry) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


@pytest.fixture
def own_vllm(tmp_path, monkeypatch):
    """Put a package vllm with this registry before all others, and forget what was read before."""
    path = tmp_path / "vllm/model_executor/models/registry.py"
    path.parent.mkdir(parents=True)
    (tmp_path / "vllm/__init__.py").touch()
    monkeypatch.delitem(sys.modules, "vllm", raising=False)  # else the one that another test has imported is read
    monkeypatch.syspath_prepend(tmp_path)
    engines.architectures.cache_clear()
    yield path
    engines.architectures.cache_clear()


def test_the_classes_of_an_installed_engine_are_read_from_its_tables(own_vllm):
    text = '_TEXT_GENERATION_MODELS = {\n    "One": ("one", "OneImpl"),\n}\n_MULTIMODAL_MODELS: dict = {"Two": 1\n}\n'
    own_vllm.write_text(f'{text}_OTHER = {{\n"Three": 1\n}}\nx.y = "Four"\n')
    assert engines.architectures("vllm") == {"One", "OneImpl", "Two"}
    assert engines.engine_cell("vllm", "Two") == "ok: Two"
    assert engines.engine_cell("vllm", "Three") == "no: the installed vllm does not run Three"


@pytest.mark.parametrize("backend", ["transformers", "vllm"])
def test_the_papers_classes_are_found_in_the_installed_registries(backend):
    pytest.importorskip(backend, reason=f"the extra {backend!r} is not installed")
    for name in (
        "LlavaForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Gemma3ForConditionalGeneration",
    ):
        assert engines.engine_cell(backend, name) == f"ok: {name}"
    assert engines.engine_cell(backend, "LlamaForCausalLM") == "ok: LlamaForCausalLM"
    assert engines.engine_cell(backend, "ViTForImageClassification").startswith("no: ")


def test_what_a_model_needs_follows_from_its_class_its_files_and_its_adapter(monkeypatch, tmp_path):
    absent = {"torchvision", "num2words", "peft"}
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None if name in absent else object())
    (tmp_path / "video_preprocessor_config.json").write_text("{}")
    qwen, new = Checkpoint({"architectures": ["Qwen2_5_VLForConditionalGeneration"]}), Checkpoint({}, tmp_path)
    shipped = registry()
    cases = [
        (shipped["idefics3-8b"], None, ""), (shipped["gpt-4.1"], None, ""), (model(), qwen, "torchvision"),
        (model(), new, "torchvision"), (model(source="mistral-community/pixtral-12b"), None, "torchvision"),
        (model(backend="transformers", lora="a"), None, "peft"), (model(lora="a"), None, ""),
        (model(requirements=["x==1"]), qwen, ""),
    ]  # fmt: skip
    assert [engines.missing_package(own, checkpoint) for own, checkpoint, _ in cases] == [case[2] for case in cases]
    absent -= {"torchvision"}
    assert engines.missing_package(shipped["smolvlm2-2.2b"], None) == "num2words"
    sentence = engines.install_sentence(model(), "torchvision")
    assert "torchvision" in sentence and "pip install 'proactive-sweep[vision]'" in sentence
    absent |= {"vllm"}
    assert engines.install_sentence(model(), engines.missing_package(model(), qwen)).endswith("[vllm]'")


def test_entries_are_of_a_folder_a_sweep_or_the_registry(tmp_path):
    folder = tmp_path / "..My model!"
    folder.mkdir()
    with pytest.raises(SweepError, match=r"has no readable config\.json .*; name the folder of a checkpoint"):
        find_models([str(folder)])
    (folder / "config.json").write_text("{}")
    (entry, oracle) = find_models([str(folder), "oracle"])
    assert (entry.name, entry.backend, entry.gpus, entry.source) == ("My-model-", "transformers", 0, str(folder))
    assert find_models([str(folder)], backend="vllm")[0].backend == "vllm" and oracle.name == "oracle"
    assert find_models(["qwen2.5-vl-7b"], backend="transformers")[0].backend == "transformers"

    sweep = tmp_path / "s.toml"
    sweep.write_text(f'data = "d"\nmodels = ["oracle", "mine"]\n[[model]]\nname = "mine"\nsource = "{folder}"\n')
    assert [spec.name for spec in find_models([], sweep)] == ["oracle", "mine"]
    assert [spec.backend for spec in find_models(["mine"], sweep)] == ["vllm"]
    assert [spec.backend for spec in find_models(["mine", "uniform"], sweep, "transformers")] == ["transformers"] * 2
