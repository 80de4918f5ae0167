"""The packages that a model needs are named with the command that installs them; one that cannot be imported is reported."""

import importlib.util

import pytest

from orchestrator.inspection import packages
from orchestrator.inspection.packages import import_errors, package_cell, required
from sweeps.checkpoint import Checkpoint
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from tests.actors.newer_architectures import EVERY


def model(**entry):
    return ModelSpec(name="m", source="s", **entry)


def test_what_a_model_needs_follows_from_its_class_and_its_adapter():
    own = registry()
    needed = {name: required(own[name], None) for name in ("smolvlm2-2.2b", "idefics3-8b", "gpt-4.1")}

    assert needed == {"smolvlm2-2.2b": ("torchvision", "num2words"), "idefics3-8b": (), "gpt-4.1": ()}
    phi = Checkpoint({"architectures": ["Phi4MultimodalForCausalLM"]})
    assert required(own["phi-4-multimodal"], phi) == ("torchvision", "peft")
    assert required(model(backend="vllm", lora="vision-lora"), None) == (), "vLLM loads adapters itself"


def test_a_processor_of_films_needs_torchvision(tmp_path):
    (tmp_path / "video_preprocessor_config.json").write_text("{}")
    unknown = Checkpoint({"architectures": ["NewForConditionalGeneration"]}, tmp_path)

    assert required(model(backend="transformers"), unknown) == ("torchvision",)
    assert required(model(backend="transformers"), Checkpoint(unknown.config)) == ()


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
@pytest.mark.parametrize("name", EVERY)
def test_the_processors_that_need_torchvision_are_those_of_the_list(name):
    """Without it, each of the others is built, and transformers refuses these."""
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    kind = EVERY[name]
    refusal = ""
    try:
        kind.build()
    except ImportError as problem:
        refusal = str(problem).lower()

    for model in kind.models:
        assert ("torchvision" in required(registry()[model], Checkpoint({"architectures": [kind.kind]}))) == (
            "torchvision" in refusal
        ), (model, refusal)
