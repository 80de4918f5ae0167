"""Cells of a model that only the Hub or its cache tells."""

import json

import pytest

from orchestrator.datasets.sources import read_hub
from orchestrator.inspection.model_check import check
from sweeps.checkpoint import Checkpoint
from sweeps.spec import ModelSpec
from tests.orchestrator.hubserver import COMMIT, Hub, ask_here, serving


def model(**entry) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


def test_a_model_on_the_hub_counts_the_weights_at_its_top(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    files = {"config.json": json.dumps({"architectures": ["A"]}), "a.safetensors": "12345", "b.safetensors": "678",
             "copies/a.safetensors": "1", "a.bin": "12"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / "published" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "published" / name).write_text(text)
    with serving(Hub(tmp_path / "published", "org/m", "models")) as hub:
        ask_here(hub, monkeypatch)
        assert read_hub("org/m") == Checkpoint({"architectures": ["A"]}, None, 8, COMMIT, "ok: mit")
        assert check([model()])[0].cells["source"] == "ok: on the Hub, no revision pinned"
        pinned, absent = check([model(revision=COMMIT), model(source="org/absent")])
        assert pinned.cells["source"] == "ok: on the Hub"
        assert absent.cells["source"].startswith("no: cannot fetch org/absent from the Hub: ") and "404" in absent.fault


def test_a_model_on_the_hub_without_a_configuration_is_none(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    (tmp_path / "published").mkdir()
    (tmp_path / "published/README.md").write_text("nothing")
    with serving(Hub(tmp_path / "published", "org/none", "models")) as hub:
        ask_here(hub, monkeypatch)
        assert check([model(source="org/none")])[0].fault == "org/none has no config.json on the Hub"
