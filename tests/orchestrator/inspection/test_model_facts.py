"""Cells of a model: its memory, pictures, template and license, on disk and on the Hub."""

import json
from pathlib import Path

import pytest

from orchestrator.inspection import model_check
from orchestrator.inspection.model_check import ModelFacts, _fit, _template
from sweeps.checkpoint import Checkpoint
from sweeps.spec import ModelSpec
from tests.orchestrator.hubserver import COMMIT, Hub, ask_here, serving


def model(**entry) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


TEXT = {"num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 64}


@pytest.mark.parametrize(
    ("entry", "weights", "cell"),
    [
        ({"gpus": 0}, 5, "ok: no GPU"),
        ({}, 0, "unknown"),
        ({"parameters": 7}, 0, "unknown; about 14 GB of weights for 14 GB"),
        ({"parameters": 8}, 0, "no: about 16 GB of weights for 14 GB"),
        ({}, 11_000_000_000, "ok: 11.0 GB weights + 0.2 GB cache, 14 GB usable on 1 x t4"),
        ({}, 11_300_000_000, "no: 11.3 GB weights + 0.2 GB cache, 14 GB usable on 1 x t4"),
        ({"gpus": 2}, 11_300_000_000, "ok: 11.3 GB weights + 0.2 GB cache, 29 GB usable on 2 x t4"),
        ({"gpus": 3}, 11_300_000_000, "no: 8 attention heads do not divide by 3 GPUs"),
        (
            {"gpus": 6, "options": {"pipeline_parallel_size": 3}}, 11_300_000_000,
            "ok: 11.3 GB weights + 0.2 GB cache, 86 GB usable on 6 x t4",
        ),
        ({"gpus": 0.5}, 1_000_000_000, "ok: 1.0 GB weights + 0.2 GB cache, 7 GB usable on 0.5 x t4"),
        ({"options": {"max_model_len": 325_000}}, 10_000_000_000, "ok: 10.0 GB weights + 0.2 GB cache, 14 GB usable on 1 x t4"),
        ({"options": {"max_model_len": 325}}, 10_000_000_000, "ok: 10.0 GB weights + 0.0 GB cache, 14 GB usable on 1 x t4"),
    ],
)  # fmt: skip
def test_a_model_fits_if_weights_cache_and_three_gigabytes_are_usable(entry, weights, cell):
    """A token takes 2 x 2 x 24 x 8 x 8 = 6,144 bytes, a prompt of 32,768 tokens 0.2 GB; 90% of 16 GB are usable."""
    config = {**TEXT, "num_hidden_layers": 24} if weights else {}
    assert _fit(model(**entry), ModelFacts("", Checkpoint(config), weights), "t4") == cell


def write_template(folder: Path, template: str | None, **tokenizer) -> Checkpoint:
    fields = tokenizer if template is None else {**tokenizer, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
    return Checkpoint({}, folder)


def test_a_template_has_functions_and_a_start_token_or_not(tmp_path):
    own = model(backend="transformers")
    assert _template(own, Checkpoint({})) == "unknown"
    assert _template(own, write_template(tmp_path, None)) == "ok: none, one question with one picture"
    assert _template(own, write_template(tmp_path, "x")) == "ok: no functions, no start token"
    twice = {"bos_token": "<s>", "add_bos_token": True}
    assert _template(own, write_template(tmp_path, "{{ tools }}<s>", **twice)) == (
        "ok: with functions, start token written twice, sent once"
    )
    assert _template(own, write_template(tmp_path, "{{ tools }}", **twice)) == (
        "ok: with functions, start token by tokenizer"
    )
    calling = model(backend="transformers", calls="native") if "calls" in ModelSpec.model_fields else own
    assert _template(calling, write_template(tmp_path, "<s>", **{**twice, "add_bos_token": False})).endswith(
        ": no functions, start token by template"
    )


def test_a_model_on_the_hub_counts_the_weights_at_its_top(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    files = {"config.json": json.dumps({"architectures": ["A"]}), "a.safetensors": "12345", "b.safetensors": "678",
             "copies/a.safetensors": "1", "a.bin": "12"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / "published" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "published" / name).write_text(text)
    with serving(Hub(tmp_path / "published", "org/m", "models")) as hub:
        ask_here(hub, monkeypatch)
        facts = model_check._facts(model())
        assert facts == ModelFacts(
            "ok: on the Hub, no revision pinned", Checkpoint({"architectures": ["A"]}), 8, "ok: mit"
        )
        assert model_check._facts(model(revision=COMMIT)).source == "ok: on the Hub"
        absent = model_check._facts(model(source="org/absent")).source
        assert absent.startswith("no: the Hub did not give org/absent: ") and "404" in absent and len(absent) <= 124


def test_a_model_on_the_hub_without_a_configuration_is_none(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    (tmp_path / "published").mkdir()
    (tmp_path / "published/README.md").write_text("nothing")
    with serving(Hub(tmp_path / "published", "org/none", "models")) as hub:
        ask_here(hub, monkeypatch)
        assert model_check._facts(model(source="org/none")).source == "no: it has no config.json"


def test_a_folder_and_a_copy_in_the_cache_have_their_own_words(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    own, cached = model(source=str(tmp_path / "m")), model()
    assert model_check._facts(own).source == f"no: {tmp_path / 'm'} has no readable config.json"
    (tmp_path / "m/config.json").write_text("{}")
    (tmp_path / "m/tokenizer.json").write_text("{}")
    (tmp_path / "m/a.safetensors").write_bytes(b"123")
    facts = model_check._facts(own)
    assert (facts.source, facts.weights, facts.license) == ("ok: on disk", 3, "ok: yours")
    checkpoint = Checkpoint({}, tmp_path / "m")
    monkeypatch.setattr(model_check, "read_checkpoint", lambda model: checkpoint)
    facts = model_check._on_disk(cached, tmp_path / "m")
    assert (facts.source, facts.weights, facts.license) == ("ok: in the Hub's cache", 3, "unknown")


@pytest.mark.parametrize(
    ("problem", "cell"),
    [("Not Found", "no: Not Found"), ("Invalid username", "no: Invalid username"), ("404", "no: 404"),
     ("timed out", "unknown: timed out"), ("x" * 200, "unknown: " + "x" * 120)],
)  # fmt: skip
def test_what_the_hub_lacks_is_no_and_what_it_does_not_say_unknown(monkeypatch, problem, cell):
    def refuse(*asked):
        raise model_check.FetchError(problem)

    monkeypatch.setattr(model_check, "read_model", refuse)
    assert model_check._facts(model()) == ModelFacts(cell)
    assert model_check._facts(model(source="./here")).source == "no: folder ./here does not exist"
