"""Weights arrive once, only what engines read, over breaks and pauses of the Hub. A real server of the Hub's protocol."""

import json
import os
import subprocess
import sys
from random import Random
from types import SimpleNamespace

import pytest

from orchestrator.datasets import weights
from orchestrator.datasets.remote_files import FetchError
from orchestrator.datasets.weights import fetched_models
from sweeps.spec import ModelSpec
from tests.conftest import PYTHONPATH
from tests.orchestrator.hubserver import COMMIT, Hub, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
MODEL = "someone/tiny"
READ = {"config.json": 40, "tokenizer.model": 3000, "model-1.safetensors": 900_000, "vision-lora/a.safetensors": 5000}
LEFT = {"pytorch_model.bin": 7000, "original/model.safetensors": 9000, "onnx/config.json": 20, "README.md": 99}


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / "published"
    for number, (name, size) in enumerate({**READ, **LEFT}.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Random(number).randbytes(size))
    with serving(Hub(folder, MODEL, "models")) as running:
        yield running


@pytest.fixture
def fetch(tmp_path):
    """``fetch(address, pauses)`` in a process of its own, for huggingface_hub reads its environment once."""
    program = tmp_path / "fetch.py"
    program.write_text(
        "import json, sys\nfrom orchestrator.datasets.weights import fetch_all\nfrom sweeps.spec import ModelSpec\n"
        "models = [ModelSpec(name=name.rpartition('/')[2], source=name) for name in sys.argv[2:]]\n"
        "failed = fetch_all(models, print, json.loads(sys.argv[1]))\nsys.exit(1 if failed else 0)\n"
    )

    def run(address, *names, pauses=()):
        home = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": PYTHONPATH}
        quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "RAY_ADDRESS"))}
        return subprocess.run(
            [sys.executable, program, json.dumps(pauses), *(names or [MODEL])],
            env={**environment, **home, **quiet}, capture_output=True, text=True, timeout=300, cwd=tmp_path,
        )  # fmt: skip

    return run


def list_fetched(tmp_path) -> dict[str, int]:
    snapshot = tmp_path / f"home/hub/models--someone--tiny/snapshots/{COMMIT}"
    return {p.relative_to(snapshot).as_posix(): p.stat().st_size for p in snapshot.rglob("*") if p.is_file()}


def test_only_what_engines_read_arrives_and_a_second_call_fetches_nothing(hub, fetch, tmp_path):
    first = fetch(hub.address)
    sent = dict(hub.sent)
    second = fetch(hub.address)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert list_fetched(tmp_path) == READ and f"{sum(READ.values()):,} bytes fetched" in first.stdout
    assert hub.sent == sent and second.stdout == "", "nothing was sent twice"


def test_a_model_without_safetensors_gets_its_other_weights(hub, fetch, tmp_path):
    for name in ("model-1.safetensors", "vision-lora/a.safetensors"):
        (hub.folder / name).unlink()
    assert fetch(hub.address).returncode == 0
    assert "pytorch_model.bin" in list_fetched(tmp_path)


def test_broken_download_resumes(hub, fetch, tmp_path):
    """huggingface_hub writes ten million bytes at a time."""
    content = Random(7).randbytes(25_000_000)
    (hub.folder / "model-1.safetensors").write_bytes(content)
    hub.cuts = {"model-1.safetensors": [24_000_000]}
    done = [fetch(hub.address)]
    while done[-1].returncode and len(done) < 3:
        done.append(fetch(hub.address))

    assert done[-1].returncode == 0, done[-1].stdout + done[-1].stderr
    assert all("rerun the same command to resume" in broken.stdout for broken in done[:-1])
    assert next(tmp_path.glob(f"home/hub/*/snapshots/{COMMIT}/model-1.safetensors")).read_bytes() == content
    assert hub.sent["model-1.safetensors"] < 24_000_000 + 10_000_000, "twenty million bytes are not sent again"


def test_a_model_that_is_not_there_is_one_sentence_and_stops_no_other(hub, fetch, tmp_path):
    done = fetch(hub.address, "someone/absent", MODEL, pauses=[60.0])

    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert next(line for line in done.stdout.splitlines() if line.startswith("absent: "))
    assert "asking again" not in done.stdout, "an answer is an answer"
    assert list_fetched(tmp_path) == READ


def test_busy_hub_is_asked_again(hub, fetch, tmp_path):
    """The refusals outlast huggingface_hub's own tries of one request."""
    hub.busy = 8
    done = fetch(hub.address, pauses=[0.1] * 12)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the Hub does not answer for tiny (HTTP 503); asking again in 0.1 s" in done.stdout
    assert list_fetched(tmp_path) == READ


def test_a_hub_that_stays_away_is_one_sentence(fetch):
    done = fetch("http://127.0.0.1:9", pauses=[0.1])

    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "the Hub does not answer for tiny (" in done.stdout and "asking again in 0.1 s" in done.stdout
    assert "asked 2 times; rerun the same command to resume" in done.stdout


def test_models_without_a_repository_are_not_fetched(tmp_path):
    models = [
        ModelSpec(name="a", source="x/y"), ModelSpec(name="b", source="x/y"),
        ModelSpec(name="c", source="x/y", revision="0" * 40), ModelSpec(name="d", source=str(tmp_path)),
        ModelSpec(name="e", source="gpt", backend="openai"), ModelSpec(name="f", source="builtin:oracle", backend="builtin"),
    ]  # fmt: skip
    assert [model.name for model in fetched_models(models)] == ["a", "c"]


def test_a_full_disk_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1))
    with pytest.raises(FetchError, match=r"2.00 GB are to fetch .* HF_HOME"):
        weights._check_space(ModelSpec(name="big", source="x/y"), tmp_path / "absent", 2_000_000_000)
