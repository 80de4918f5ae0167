"""Engines, packages, and entries: what a machine has, and what a name stands for."""

import importlib.util
import sys
from pathlib import Path

import pytest

from orchestrator.inspection import architectures, packages
from orchestrator.inspection.checkpoint_entry import checkpoint_spec, checkpoint_specs, own_entry, played_names
from orchestrator.inspection.model_check import local_fault
from sweeps.checkpoint import Checkpoint
from sweeps.load import SweepError
from sweeps.spec import ModelSpec


def model(**entry) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


def write_registry(folder: Path, monkeypatch, text: str) -> None:
    """Put a package vllm whose registry has this text before all others, and forget what was read before."""
    path = folder / "vllm/model_executor/models/registry.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "vllm/__init__.py").touch()
    path.write_text(text)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)  # else the one that another test has imported is read
    monkeypatch.syspath_prepend(folder)
    architectures.architectures.cache_clear()


def test_the_classes_of_an_installed_engine_are_read_from_its_tables(tmp_path, monkeypatch):
    tables = (
        '_TEXT_GENERATION_MODELS = {"One": ("one", "OneImpl")}\n_MULTIMODAL_MODELS: dict = {"Two": ("two", "Two")}\n'
    )
    write_registry(tmp_path, monkeypatch, f'{tables}_OTHER = {{"Three": 1}}\nx.y = "Four"\nz = a = 1\n')
    try:
        assert architectures.architectures("vllm") == (frozenset({"One", "OneImpl", "Two"}), "by the installed vllm")
        assert architectures.engine_cell("vllm", "Two") == "ok: Two"
        assert architectures.engine_cell("vllm", "Three") == "no: vllm does not run Three (by the installed vllm)"
        by_transformers = "Qwen2_5_VLForConditionalGeneration"
        assert architectures.engine_cell("vllm", by_transformers) == (
            f"ok: {by_transformers}, by vLLM's transformers backend"
        )
        path = tmp_path / "vllm/transformers_utils/chat_templates/registry.py"
        assert architectures.engine_has_template(Checkpoint({"model_type": "blip"}))
        path.parent.mkdir(parents=True)
        path.write_text('{"blip": 1}')
        assert architectures.engine_has_template(Checkpoint({"model_type": "blip"}))
        assert not architectures.engine_has_template(Checkpoint({"model_type": "lip"}))
        for unreadable in ("_TEXT_GENERATION_MODELS = {", "nothing = 1"):
            write_registry(tmp_path, monkeypatch, unreadable)
            assert architectures.architectures("vllm")[0] == architectures.VLLM
    finally:
        architectures.architectures.cache_clear()


def test_without_an_engine_a_list_answers(monkeypatch):
    monkeypatch.setattr(architectures.importlib.util, "find_spec", lambda name: None)
    architectures.architectures.cache_clear()
    try:
        lists = {backend: architectures.architectures(backend) for backend in ("vllm", "transformers")}
        assert lists == {
            "vllm": (architectures.VLLM, "by a list; vllm is not installed"),
            "transformers": (architectures.TRANSFORMERS, "by a list; transformers is not installed"),
        }
        assert architectures.engine_cell("vllm", "Odd") == "unknown: Odd (by a list; vllm is not installed)"
        assert architectures.engine_has_template(Checkpoint({}))
    finally:
        architectures.architectures.cache_clear()
    assert len(architectures.VLLM) == 16 and len(architectures.TRANSFORMERS) == 15
    assert {name for name in architectures.VLLM if name.startswith(("Phi", "Intern", "Molmo", "Mini"))} == {
        "Phi4MMForCausalLM", "InternVLChatModel", "InternVLForConditionalGeneration", "MolmoForCausalLM", "MiniCPMV",
    }  # fmt: skip


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    absent = {"torchvision", "peft"}
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None if name in absent else object())
    qwen = Checkpoint({"architectures": ["Qwen2_5_VLForConditionalGeneration"]})
    own = model(backend="transformers", lora="a")
    assert packages.required(own, qwen) == ("torchvision", "peft")
    assert packages.missing(own, qwen) == (
        "it needs torchvision, which is not installed: pip install 'proactive-sweep[vision]'"
    )
    absent.remove("torchvision")
    assert (
        packages.missing(own, qwen)
        == "it needs peft, which is not installed: pip install 'proactive-sweep[transformers]'"
    )
    absent.clear()
    assert packages.missing(own, qwen) == "" and packages.import_errors([]) == {}
    assert packages.required(model(source="mistral-community/pixtral-12b"), Checkpoint({})) == ("torchvision",)
    assert (
        packages.required(model(requirements=["x==1"]), qwen) == packages.required(model(backend="openai"), qwen) == ()
    )


def test_entries_are_of_a_folder_a_sweep_or_the_registry(tmp_path):
    folder = tmp_path / "..My model!"
    folder.mkdir()
    with pytest.raises(SweepError) as refused:
        checkpoint_spec(str(folder))
    assert str(refused.value) == f"{folder} is a folder without config.json; name the folder of a checkpoint"
    (folder / "config.json").write_text("{}")
    entry = checkpoint_spec(str(folder))
    assert (entry.name, entry.backend, entry.gpus, entry.max_images) == ("My-model-", "transformers", 0, 256)
    assert checkpoint_spec(str(folder), "vllm").backend == "vllm" and entry.source == str(folder)
    assert checkpoint_spec("embedded") is checkpoint_spec("") is None
    assert checkpoint_spec("qwen2.5-vl-7b", "transformers").backend == "transformers"
    assert [spec.name for spec in checkpoint_specs([str(folder), "oracle"], None)] == ["My-model-", "oracle"]

    sweep = tmp_path / "s.toml"
    table = f'data = "d"\nmodels = ["oracle", "mine"]\n[[model]]\nname = "mine"\nsource = "{folder}"\n'
    sweep.write_text(table)
    assert [spec.name for spec in checkpoint_specs([], sweep)] == ["oracle", "mine"]
    assert (
        own_entry("mine", sweep, "transformers").backend == "transformers" and own_entry("mine", sweep).name == "mine"
    )
    assert own_entry("uniform", sweep) is own_entry("", sweep) is own_entry("mine", None) is None
    assert played_names({"models": "one", "model": [{"name": "two"}, {"name": 3}, {}]}) == {"one", "two"}


def test_the_lists_name_classes_that_an_engine_has():
    """A mistyped name would never match; without the engine its registry cannot be asked."""
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    by_transformers, by_vllm = (architectures.architectures(backend)[0] for backend in ("transformers", "vllm"))
    lacking = architectures.TRANSFORMERS - by_transformers
    if importlib.util.find_spec("vllm"):
        assert by_vllm >= architectures.VLLM
        classes = {name for name in packages.PROCESSORS if "/" not in name}
        assert classes <= by_transformers | by_vllm
    assert lacking == set()


def test_a_lacking_package_is_the_fault_of_a_folder_before_it_is_loaded(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="its engine is not installed")
    (tmp_path / "config.json").write_text('{"architectures": ["Qwen2_5_VLForConditionalGeneration"]}')
    (tmp_path / "tokenizer.json").write_text("{}")
    own = model(source=str(tmp_path), backend="transformers")
    monkeypatch.setattr(packages, "missing", lambda model, checkpoint: "it needs x: pip install x")
    assert local_fault(own) == "it needs x: pip install x"
    monkeypatch.setattr(packages, "missing", lambda model, checkpoint: "")
    assert local_fault(own) == ""
