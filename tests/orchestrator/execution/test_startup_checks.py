"""A model that cannot start is reported before Ray starts; the others go on, and the reason is repeated at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from envs.errors import RunFolderError
from orchestrator.execution import startup_checks
from orchestrator.inspection.certificate import Certificate, add_certificate, read_certificates
from orchestrator.planning.plan import judge_group
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.status import read_status
from sweeps.load import build
from tests.conftest import ROOT

WRONG = {
    "keyless": ({"source": "gpt", "backend": "openai"}, "OPENAI_API_KEY is not set"),
    "unaddressed": ({"source": "m", "endpoint": {"base_url": "http://127.0.0.1:9"}}, 'key_env = "" in the entry'),
    "misaddressed": ({"source": "m", "endpoint": {"base_url": "ftp://x", "key_env": ""}}, "must start with http://"),
    "folderless": ({"source": "/nowhere/model", "backend": "vllm"}, "folder /nowhere/model does not exist"),
    "empty": ({"source": "./tests", "backend": "transformers"}, "has no readable config.json"),
    "closed": ({"source": "m", "endpoint": {"base_url": "http://127.0.0.1:9", "key_env": ""}}, "does not answer"),
    "wide": ({"source": "org/m", "backend": "transformers", "gpus": 2}, "it needs 2 GPUs, and this machine has none"),
    "unadapted": ({"source": "org/m", "lora": "/nowhere/adapter", "gpus": 0}, "/nowhere/adapter does not exist"),
}
GOOD = {"hub": {"source": "org/m", "revision": "a" * 40, "backend": "transformers", "gpus": 0}}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(startup_checks, "_is_single_machine", lambda: not os.environ.get("RAY_ADDRESS"))
    monkeypatch.chdir(ROOT)


def build_sweep(data="nowhere", extra=()):
    models = {**{name: entry for name, (entry, _) in WRONG.items()}, **GOOD}
    table = {"name": "t", "data": str(data), "conditions": ["zero-shot"], "scenarios": ["ROD"], **dict(extra)}
    entries = [{"name": name, **entry} for name, entry in models.items()]
    return build({**table, "models": [*models, "uniform"], "model": entries}, "a test")


def test_startup_errors_are_reported(capsys):
    pytest.importorskip("transformers", reason="the extra `transformers` is not installed")
    errors = startup_checks.find_startup_errors(build_sweep(), {*WRONG, *GOOD, "builtin"}, None)
    lines = capsys.readouterr().err.splitlines()

    assert errors.keys() == WRONG.keys() and len(lines) == len(WRONG)
    for name, (_, why) in WRONG.items():
        assert why in errors[name] and any(line.startswith(f"{name}: ") and why in line for line in lines)
    assert startup_checks.find_startup_errors(build_sweep(), {"hub"}, None) == {}, "others are played already"


def test_model_beyond_the_sweeps_own_limit_is_left_out_also_on_a_cluster(monkeypatch, capsys):
    """No node that joins could change that, so nothing waits for one."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    models = [{"name": name, "source": "org/m", "gpus": gpus} for name, gpus in (("wide", 4), ("narrow", 2))]
    table = {"name": "t", "data": "nowhere", "models": ["wide", "narrow"], "model": models, "cluster": {"gpus": 2}}
    errors = startup_checks.find_startup_errors(build(table, "a test"), {"wide", "narrow"}, None)

    assert errors == {"wide": "it needs 4 GPUs, and cluster.gpus = 2 allows fewer; raise cluster.gpus"}
    assert "wide: it needs 4 GPUs" in capsys.readouterr().err
    assert startup_checks.find_startup_errors(build(table, "a test"), {"narrow"}, None) == {}


KEYLESS, FOLDERLESS = "OPENAI_API_KEY is not set", "folder /nowhere/judge does not exist"


def state_of(spec, pending, queue=None, **more):
    return SimpleNamespace(sweep=spec, pending=pending, judge_queue=queue, reasons={}, **more)


def queue_of(spec, stop_reason=""):
    return SimpleNamespace(judge=spec.judge, group=judge_group(spec.judge), stop_reason=stop_reason)


def judged_by(source, protocol):
    judge = {"name": "j", "source": source, "backend": "transformers", "gpus": 0}
    table = {"name": "t", "data": "nowhere", "conditions": ["zero-shot"], "scenarios": ["ROD"], "protocol": [protocol]}
    models = [{"name": name, **entry} for name, entry in (("keyless", WRONG["keyless"][0]), ("hub", GOOD["hub"]))]
    return build({**table, "models": ["keyless", "hub"], "model": [*models, judge], "judge": {"model": "j"}}, "a test")


@pytest.mark.parametrize(
    ("source", "stop_reason", "reason"),
    [("/nowhere/judge", "", FOLDERLESS), ("org/j", "it reads nothing", "it reads nothing"), ("org/j", "", "")],
)
def test_a_judge_that_cannot_read_leaves_the_writers_alone(source, stop_reason, reason):
    pytest.importorskip("transformers", reason="the extra `transformers` is not installed")
    spec = judged_by(source, "oeg")
    state = state_of(spec, {"hub": [0]}, queue := queue_of(spec, stop_reason))
    startup_checks.check_models(state)

    assert state.reasons == ({"judge:j": reason} if reason else {})
    assert state.judge_queue is (None if reason else queue)


def test_writers_that_need_the_judge_between_turns_stop_with_it(capsys):
    pytest.importorskip("transformers", reason="its engine is not installed")
    state = state_of(judged_by("/nowhere/judge", "oeg-multi"), {"keyless": [0], "hub": [1]})
    startup_checks.check_models(state)

    assert state.reasons == {
        "keyless": KEYLESS, "hub": f"its judge cannot start: {FOLDERLESS}", "judge:j": FOLDERLESS,
    }  # fmt: skip
    assert "hub" not in capsys.readouterr().err, "the judge's own line says it"
    state = state_of(judged_by("org/j", "oeg-multi"), {"hub": [1]})
    startup_checks.check_models(state)
    assert state.reasons == {}


@pytest.fixture
def played(tmp_path):
    """A run that has played "own" with other weights, and has only loaded those of "new"; both have a certificate."""
    models = []
    for name in ("own", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
        models.append({"name": name, "source": str(tmp_path / name), "backend": "transformers"})
    table = {"name": "t", "data": "nowhere", "models": ["own", "new"], "model": models}
    spec, output = build(table, "a test"), tmp_path / "run"
    output.mkdir()
    for model in spec.models:
        LoadedWeights(output).add(model, f"sha256:{'0' * 64}")
        add_certificate(output, model.name, Certificate(source=model.source, backend=model.backend))
    return state_of(spec, {"own": [0], "new": [1]}, output=output, played={"own"})


def test_weights_other_than_the_runs_stop_what_it_has_played(played):
    with pytest.raises(RunFolderError, match=r"run was played with weights sha256:000000000000 of own, but .*/own has"):
        startup_checks.check_weights(played)
    assert LoadedWeights(played.output).models.keys() == read_certificates(played.output).keys() == {"own"}


def test_weights_are_compared_with_nothing_pending_but_on_one_machine_alone(played, monkeypatch):
    played.pending = {}
    with pytest.raises(RunFolderError, match="played with weights"):
        startup_checks.check_weights(played)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    played.pending = {"own": [0]}
    startup_checks.check_weights(played)


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
