"""The packages that a model needs are named with the command that installs them; one that cannot be imported is reported."""

from orchestrator.inspection.packages import import_errors, required
from sweeps.checkpoint import Checkpoint
from sweeps.registry import registry
from sweeps.spec import ModelSpec


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
