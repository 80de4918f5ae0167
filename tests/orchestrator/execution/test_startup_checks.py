"""A model that cannot start is reported before Ray starts; the others go on, and the reason is repeated at the end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from orchestrator.execution import startup_checks
from orchestrator.storage.status import read_status
from sweeps.load import build
from tests.conftest import ROOT

WRONG = {
    "keyless": ({"source": "gpt", "backend": "openai"}, "OPENAI_API_KEY is not set"),
    "unaddressed": ({"source": "m", "endpoint": {"base_url": "http://127.0.0.1:9"}}, "empty key_env in its entry"),
    "misaddressed": ({"source": "m", "endpoint": {"base_url": "ftp://x", "key_env": ""}}, "must start with http://"),
    "folderless": ({"source": "/nowhere/model", "backend": "vllm"}, "folder /nowhere/model does not exist"),
    "empty": ({"source": "./tests", "backend": "transformers"}, "has no readable config.json"),
    "unadapted": ({"source": "org/m", "lora": "/nowhere/adapter"}, "adapter /nowhere/adapter does not exist"),
}
GOOD = {
    "hub": {"source": "org/m", "revision": "a" * 40},
    "local": {"source": "m", "endpoint": {"base_url": "http://127.0.0.1:9", "key_env": ""}},
    "embedded": {"source": "builtin:embedded", "backend": "transformers"},
}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(startup_checks, "_has_joined_cluster", lambda: False)
    monkeypatch.chdir(ROOT)


def build_sweep(data="nowhere", extra=()):
    models = {**{name: entry for name, (entry, _) in WRONG.items()}, **GOOD}
    table = {"name": "t", "data": str(data), "conditions": ["zero-shot"], "scenarios": ["ROD"], **dict(extra)}
    return build(
        {**table, "models": [*models, "uniform"], "model": [{"name": n, **e} for n, e in models.items()]}, "a test"
    )


def test_startup_errors_are_reported(capsys):
    errors = startup_checks.find_startup_errors(build_sweep(), {*WRONG, *GOOD, "builtin"}, None)
    lines = capsys.readouterr().err.splitlines()

    assert errors.keys() == WRONG.keys() and len(lines) == len(WRONG)
    for name, (_, why) in WRONG.items():
        assert why in errors[name] and any(line.startswith(f"{name}: ") and why in line for line in lines)
    assert startup_checks.find_startup_errors(build_sweep(), {"hub"}, None) == {}, (
        "what is played already is not asked for"
    )


def test_on_cluster_errors_are_reported_and_tried(monkeypatch, capsys):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert startup_checks.find_startup_errors(build_sweep(), {"keyless"}, None) == {}
    assert "the cluster's machines try it" in capsys.readouterr().err


def test_model_beyond_the_sweeps_own_limit_is_left_out_also_on_a_cluster(monkeypatch, capsys):
    """No node that joins could change that, so nothing waits for one."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    models = [{"name": name, "source": "org/m", "gpus": gpus} for name, gpus in (("wide", 4), ("narrow", 2))]
    table = {"name": "t", "data": "nowhere", "models": ["wide", "narrow"], "model": models, "cluster": {"gpus": 2}}
    errors = startup_checks.find_startup_errors(build(table, "a test"), {"wide", "narrow"}, None)

    assert errors == {"wide": "it needs 4 GPUs, and cluster.gpus = 2 allows fewer; raise cluster.gpus"}
    assert "wide: it needs 4 GPUs" in capsys.readouterr().err
    assert startup_checks.find_startup_errors(build(table, "a test"), {"narrow"}, None) == {}


def test_judge_without_its_key_is_reported():
    spec = build_sweep(extra={"protocol": ["oeg"], "judge": {"model": "keyless"}})
    assert list(startup_checks.find_startup_errors(spec, (), spec.judge)) == ["judge:keyless"]


def test_missing_key_is_reported_before_ray_and_at_the_end(demo_data, tmp_path):
    file, out = tmp_path / "s.toml", tmp_path / "run"
    file.write_text(
        f'name = "s"\ndata = "{demo_data}"\nmodels = ["gpt-4.1"]\nconditions = ["zero-shot"]\n[tracking]\nuri = "none"\n'
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "OPENAI_API_KEY")}
    command = [sys.executable, "-m", "orchestrator", "run", str(file), "--output", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    lines = done.stderr.splitlines()

    assert done.returncode == 1 and "starting Ray" not in done.stderr + done.stdout
    assert lines[0].startswith(why := "gpt-4.1: OPENAI_API_KEY is not set") and lines[-1].startswith(why)
    assert {(cell["state"], cell["reason"]) for cell in read_status(out)["cells"]} == {
        ("failed", "OPENAI_API_KEY is not set")
    }
