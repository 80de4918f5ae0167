"""What a model's processor needs is named with the command that installs it, and a package that cannot be imported is told."""

import importlib.util

import pytest

from orchestrator.inspection import packages
from orchestrator.inspection.packages import PROCESSORS, import_errors, package_cell, required
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from tests.actors.architectures import ARCHITECTURES


def model(**entry):
    return ModelSpec(name="m", source="s", **entry)


def test_what_a_model_needs_follows_from_its_class_and_its_adapter():
    own = registry()
    found = {name: required(own[name], own[name].architecture) for name in ("smolvlm2-2.2b", "idefics3-8b", "gpt-4.1")}

    assert found == {"smolvlm2-2.2b": ("torchvision", "num2words"), "idefics3-8b": (), "gpt-4.1": ()}
    assert required(own["phi-4-multimodal"], "Phi4MultimodalForCausalLM") == ("torchvision", "peft")
    assert required(model(backend="vllm", lora="vision-lora"), "") == (), "vLLM loads adapters itself"


def test_packages_are_imported_and_not_only_found(tmp_path, monkeypatch):
    (tmp_path / "fine_here.py").write_text("")
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('operator nms does not exist\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert import_errors(["fine_here", "broken_here", "not_here"]) == {
        "fine_here": "", "broken_here": "RuntimeError: operator nms does not exist", "not_here": "not installed",
    }  # fmt: skip
    (tmp_path / "ends_here.py").write_text("import os\nos._exit(1)")
    assert "its import crashed" in import_errors(["ends_here"])["ends_here"]
    assert import_errors([]) == {}


def test_the_sentence_says_what_to_type(monkeypatch):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: object() if name == "vllm" else None)
    vllm = model(backend="vllm")

    assert (
        package_cell(vllm, ("torchvision", "num2words"), {"torchvision": "", "num2words": ""})
        == "ok: torchvision, num2words"
    )
    assert package_cell(vllm, ("num2words",), {"num2words": "not installed"}) == (
        "no: it needs num2words, which is not installed: pip install 'proactive-sweep[vllm]'"
    )
    assert package_cell(vllm, ("torchvision",), {"torchvision": "not installed"}).endswith(
        "pip install 'proactive-sweep[vision]'"
    )
    assert package_cell(vllm, ("torchvision",), {"torchvision": "RuntimeError: no nms"}) == (
        "no: torchvision cannot be imported (RuntimeError: no nms): install the release for this torch"
    )
    assert package_cell(model(backend="transformers"), (), {}) == (
        "unknown: transformers is not installed: pip install 'proactive-sweep[transformers]'"
    )
    assert package_cell(model(backend="openai"), (), {}) == "ok"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="torchvision is installed here")
def test_the_processors_that_need_torchvision_are_those_of_the_list():
    """Without it, each of the others is built, and transformers refuses these."""
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    refused = set()
    for architecture in ARCHITECTURES.values():
        try:
            architecture.build()
        except ImportError as problem:
            assert "torchvision" in str(problem).lower()
            refused.add(architecture.kind)

    assert refused == PROCESSORS.keys() - {"Phi4MMForCausalLM"}
