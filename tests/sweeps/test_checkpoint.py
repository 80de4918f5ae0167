"""What a checkpoint accepts is read from its files, in a folder or the Hub's cache: pictures, template, functions."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.inspection.model_check import local_fault
from sweeps.checkpoint import checkpoint_folder, read_checkpoint, source_fault, with_limits
from sweeps.load import SweepError, build, limited_products, skipped_products
from sweeps.own_model import Machine, read_entries
from sweeps.spec import ModelSpec

CHATML = "{% for message in messages %}<|im_start|>{{ message['content'] }}{% endfor %}"
TEXT = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 8192}
VISION = {
    "architectures": ["NewForConditionalGeneration"], "vision_config": {}, "text_config": {"max_position_embeddings": 32},
}  # fmt: skip


def files(folder: Path, config: object = TEXT, **others: object) -> Path:
    """Write a checkpoint's JSON files; ``others`` name them without their ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config": config, **others}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def model(source: Path | str, **entry: object) -> ModelSpec:
    return ModelSpec(name="m", source=str(source), **{"backend": "transformers", "gpus": 0, **entry})


def limits(source: Path | str, **entry: object) -> tuple[str, ...]:
    return with_limits(model(source, **entry)).limits


@pytest.mark.parametrize(
    ("config", "text_only"),
    [
        (TEXT, True),
        (VISION, False),
        ({**TEXT, "architectures": ["GPT2LMHeadModel"]}, True),
        ({**TEXT, "mm_vision_tower": "clip"}, False),
        ({**TEXT, "auto_map": {"AutoModel": "x.Own"}}, False),
        ({**TEXT, "architectures": ["LlavaForConditionalGeneration"]}, False),
        ({}, False),
        ({"architectures": "LlamaForCausalLM"}, False),
    ],
)
def test_only_a_known_language_model_without_a_sign_of_pictures_reads_text_only(tmp_path, config, text_only):
    assert ("no pictures" in limits(files(tmp_path, config))) is text_only


def test_the_chat_template_may_stand_in_any_of_its_files(tmp_path):
    named = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": "{{ tools }}"}]
    places = (
        {"tokenizer_config": {"chat_template": CHATML}},
        {"tokenizer_config": {"chat_template": named}},
        {"tokenizer_config": {}, "chat_template": {"chat_template": CHATML}},
        {"tokenizer_config": {}, "processor_config": {"chat_template": CHATML}},
    )
    for number, others in enumerate(places):
        checkpoint = read_checkpoint(model(files(tmp_path / str(number), VISION, **others)))
        assert checkpoint is not None and CHATML in (checkpoint.template or "")
        assert ("tools" in (checkpoint.template or "")) is (number == 1)
    without = files(tmp_path / "none", VISION, tokenizer_config={})
    assert limits(without) == ("no chat template",)
    (without / "chat_template.jinja").write_text(CHATML)
    assert limits(without) == ()
    assert limits(files(tmp_path / "half", VISION)) == (), "without the tokenizer's file nothing is known of a template"


def test_vllm_has_templates_of_its_own_but_joins_those_of_paligemma(tmp_path):
    new = files(tmp_path / "new", VISION, tokenizer_config={})
    paligemma = files(tmp_path / "gemma", {**VISION, "model_type": "paligemma"}, tokenizer_config={})

    assert limits(new, backend="vllm") == ()
    assert limits(paligemma, backend="vllm") == ("no chat template",)


def test_the_prompt_without_vllms_mark_has_a_key_of_its_own(tmp_path):
    paligemma = files(tmp_path, {**VISION, "model_type": "paligemma"}, tokenizer_config={})
    versions = [with_limits(model(paligemma, backend=name)).input_version for name in ("vllm", "transformers")]

    assert versions == [model(paligemma).input_version + 1, model(paligemma).input_version]


def test_functions_are_asked_of_the_template_only_for_native_calls(tmp_path):
    deaf = files(tmp_path / "deaf", VISION, tokenizer_config={"chat_template": CHATML})
    able = files(tmp_path / "able", VISION, tokenizer_config={"chat_template": CHATML + "{{ tools }}"})

    assert limits(deaf, backend="vllm", tools="hermes") == ("no functions",)
    assert limits(able, backend="vllm", tools="hermes") == limits(deaf, backend="vllm", tools="text") == ()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The folder of ``org/name`` in an empty cache of the Hub."""
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    folder = tmp_path / "hub/models--org--name"
    (folder / "refs").mkdir(parents=True)
    return folder


OLD, NEW = "a" * 40, "0123456789" * 4
"""Commits."""


def test_a_snapshot_of_the_hub_is_read_at_its_revision(tmp_path, repository):
    old, new = files(repository / "snapshots" / OLD, VISION), files(repository / "snapshots" / NEW)
    (repository / "refs/refs/pr").mkdir(parents=True)
    (repository / "refs/main").write_text(NEW)
    (repository / "refs/refs/pr/7").write_text(f"{OLD}\n")

    assert checkpoint_folder(model("org/name")) == new
    assert checkpoint_folder(model("org/name", revision=OLD)) == old
    assert checkpoint_folder(model("org/name", revision="refs/pr/7")) == old
    assert checkpoint_folder(model("org/name", revision="c" * 40)) is checkpoint_folder(model("org/other")) is None
    for cache in (str(tmp_path / "no"), "~nobody-here/cache"):
        assert checkpoint_folder(model("org/name", options={"download_dir": cache})) is None
    assert limits("org/name") == ("no pictures",) and limits("org/name", revision=OLD) == ()
    assert source_fault(model("org/name")) == source_fault(model("org/other")) == ""


def large_file(path):
    with path.open("wb") as file:
        file.truncate(6 << 30)  # a hole


POISON = {
    "a reference out of the cache": ("refs/main", lambda path: path.write_text("../../../elsewhere"), "40 hex digits"),
    "a reference that is no commit": ("refs/main", lambda path: path.write_text("main"), "40 hex digits"),
    "a long reference": ("refs/main", lambda path: path.write_text(NEW + " " * 100), "larger than 100 bytes"),
    "a pipe as reference": ("refs/main", os.mkfifo, "a pipe"),
    "a pipe as configuration": (f"snapshots/{NEW}/config.json", os.mkfifo, "a pipe"),
    "a huge configuration": (f"snapshots/{NEW}/config.json", large_file, "larger than 16,777,216 bytes"),
    "a configuration that is none": (f"snapshots/{NEW}/config.json", lambda path: path.write_text("[]"), "JSON object"),
}


@pytest.mark.parametrize(("name", "write", "reason"), POISON.values(), ids=POISON)
def test_a_poisoned_cache_is_named_and_the_hub_is_not_asked(repository, name, write, reason):
    """Transformers and vLLM would wait for the pipe."""
    files(repository / "snapshots" / NEW)
    (repository / "refs/main").write_text(NEW)
    (repository / name).unlink()
    write(repository / name)

    with pytest.raises(SweepError) as refused:
        read_entries("org/name", Machine(), pytest.fail)
    where = f"folder {(repository / name).parent} has no readable {Path(name).name}"
    assert str(refused.value).startswith(where) and reason in str(refused.value)
    assert f"; remove {repository}, so that" in str(refused.value)
    assert local_fault(model("org/name")) == str(refused.value)
    assert read_checkpoint(model("org/name")) is None and limits("org/name") == ()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_broken_file_is_as_if_empty(tmp_path, content):
    for name in ("config", "tokenizer_config", "processor_config"):
        (tmp_path / f"{name}.json").write_bytes(content)
    assert read_checkpoint(model(tmp_path)) is None and limits(tmp_path) == ()
    odd = '{"architectures": [["x"]], "text_config": 3, "max_position_embeddings": true}'
    (tmp_path / "config.json").write_text(odd)
    checkpoint = read_checkpoint(model(tmp_path))
    assert checkpoint is not None
    assert (checkpoint.architecture, checkpoint.context) == ("", 0)
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    assert read_checkpoint(model(tmp_path)) is None, "a pipe is not waited for"


def sweep(folder: Path, conditions: list[str], **more: object):
    models = [{"name": "sees", "source": "org/m"}, {"name": "reads", "source": str(folder), "backend": "transformers"}]
    return build({"data": "d", "scenarios": ["QD", "ROD"], "conditions": conditions, "model": models, **more}, "x.toml")


def test_cells_are_left_out_and_not_models(tmp_path):
    built = sweep(files(tmp_path), ["zero-shot", "text-only", "icl-1"])
    played = {(cell.model.name, cell.condition.name) for cell in built.cells()}

    assert played == {("sees", "zero-shot"), ("sees", "text-only"), ("sees", "icl-1"), ("reads", "text-only")}
    reasons = [f"reads reads text only, but {name} shows pictures" for name in ("zero-shot", "icl-1")]
    assert limited_products(built) == reasons
    assert set(limited_products(built)) < set(skipped_products(built))


def test_a_judge_needs_a_chat_template(tmp_path):
    base = {"name": "base", "source": str(files(tmp_path, tokenizer_config={})), "backend": "transformers"}
    table = {"data": "d", "models": ["oracle"], "model": [base], "protocol": "oeg", "judge": {"model": "base"}}

    with pytest.raises(SweepError, match=r"judge\.model = 'base' has no chat template"):
        build(table, "x.toml")
