"""The embedded model uses the picture: it recognizes clear views, not hidden ones, and a swapped picture misleads it.

The product plays it over pictures of a seed that was neither trained on nor looked at while training.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

pytest.importorskip("torch", reason="the embedded model needs torch")
pytest.importorskip("transformers", reason="the embedded model needs transformers")

from actors.engine.registry import open_engine
from envs import SCENARIOS
from orchestrator.inspection.certificate import read_certificates
from orchestrator.storage.episode_store import episodes, turns
from proactive_demo.drawing import draw, draw_sample
from proactive_demo.models import EMBEDDED
from tests.orchestrator.report.runs import play_sweep, sweep

SEED = 980_000
SAMPLES = 84
CONDITIONS = ["reference", "zero-shot", "hint", "icl-1", "swapped-reference"]
SWAPPED = {"name": "swapped-reference", "description": "", "mode": "reference", "picture": "swapped"}
ON_CPU = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32, "gpu_memory_utilization": 0.2}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("embedded") / "data"
    draw(folder, SAMPLES, SEED)
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    """The embedded model over twelve samples of every scenario."""
    wanted = sweep(data, ["embedded"], CONDITIONS, condition=[SWAPPED])
    engine = open_engine(wanted.models[0], data)
    return play_sweep(tmp_path_factory.mktemp("run") / "run", wanted, backends={"embedded": engine}, in_flight=32)


def right(run: Path, condition: str) -> dict[str, float]:
    """Return scenario -> share of right episodes."""
    rows = episodes(run).filter(condition=condition).group_by("scenario").agg(pl.col("correct").mean()).collect()
    return dict(rows.sort("scenario").iter_rows())


def first_replies(run: Path, condition: str) -> pl.DataFrame:
    played = episodes(run).filter(condition=condition).select("key", "scenario")
    return turns(run).filter(turn=0).join(played, on="key").collect()


def asking(replies: pl.DataFrame) -> float:
    return (replies["action"] == "suggestion").mean()


def test_clear_views_are_recognized_and_swapped_ones_are_not(run):
    clear, swapped = right(run, "reference"), right(run, "swapped-reference")

    assert sum(clear.values()) / 7 >= 0.85 and min(clear.values()) >= 0.6, clear
    assert sum(swapped.values()) / 7 < 0.4, swapped


def test_hidden_views_get_a_mixture_of_replies_that_are_seldom_right(run):
    replies = first_replies(run, "zero-shot")
    shares = {action: (replies["action"] == action).mean() for action in ("suggestion", "abstention", "category")}

    assert all(share >= 0.05 for share in shares.values()), shares
    assert (replies["action"] == "unparsable").mean() < 0.03
    assert (replies["category"] == "correct").mean() < 0.3


def test_a_hint_and_an_example_make_it_ask_more(run):
    plain, hinted, shown = (first_replies(run, name) for name in ("zero-shot", "hint", "icl-1"))
    same = plain.filter(pl.col("scenario").is_in(["ROD", "MVP-N"]))

    assert asking(hinted) > asking(plain) + 0.05
    assert asking(shown) > asking(same) + 0.05


def test_replies_that_it_was_taught_are_among_the_options(tmp_path):
    from proactive_demo.embedded.training import pictures, training_data

    bank = pictures.draw_bank(tmp_path, laps=1, first_seed=SEED, count=10)
    teacher, rng = training_data.TrainingData(bank, lap=10), Random(0)
    for example in [*(teacher.short(rng) for _ in range(150)), *(teacher.long(rng) for _ in range(60))]:
        *messages, reply = example.conversation
        options = [line.split(". ", 1)[1] for line in messages[-1].text.splitlines() if line[1:3] == ". "]
        assert not options or reply.text in options
        assert sum(len(message.images) for message in messages) == len(example.rows)
        assert all(0 <= row < len(bank.pixels) for row in example.rows)


def test_training_reads_the_tokens_and_pixels_of_the_saved_processor():
    import numpy as np
    from transformers import AutoProcessor

    from actors.playing import prompts
    from proactive_demo.embedded.training import text_processor
    from proactive_demo.embedded.training.pictures import parse_demo, picture_of, shrink

    processor = AutoProcessor.from_pretrained(EMBEDDED.folder())
    tokenizer = processor.tokenizer.backend_tokenizer
    for name, game in SCENARIOS.items():
        demo = draw_sample(name, 0, SEED)
        sample = parse_demo(demo)
        view = game.view(sample, game.initial(sample))
        question, picture = prompts.question_message(view), picture_of(demo, view.image)
        chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question.text}]}]
        text = processor.apply_chat_template(chat, add_generation_prompt=True)
        inputs = processor(text=[text], images=[[picture]], return_tensors="np")
        ids, _ = text_processor.encode_conversation(tokenizer, (question,), (False,))
        pixels = np.asarray(shrink(picture)).transpose(2, 0, 1) / 127.5 - 1

        assert inputs["input_ids"][0].tolist() == ids + tokenizer.encode(text_processor.SPEAKERS["assistant"]).ids
        assert np.abs(pixels - inputs["pixel_values"][0, 0]).max() < 1e-5


@pytest.fixture(scope="module")
def ray_runs() -> dict[str, Path]:
    return {}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("backend", ["transformers", "vllm"])
def test_both_engines_play_the_same_through_ray(cli, demo_data, tmp_path, ray_runs, backend):
    """Greedy replies of the engines may differ in a rounding here and there, not in kind."""
    pytest.importorskip(backend)
    file, out = tmp_path / "sweep.toml", tmp_path / "run"
    options = ", ".join(f"{key} = {str(value).lower()}" for key, value in ON_CPU.items()) if backend == "vllm" else ""
    file.write_text(
        f'data = "{demo_data}"\nconditions = ["zero-shot", "history", "icl-3", "reference"]\n'
        'tracking = { uri = "none" }\n[selection]\nlimit = 2\n'
        f'[[model]]\nname = "embedded"\nsource = "builtin:embedded"\nbackend = "{backend}"\ngpus = 0\n'
        f'dtype = "float32"\nmax_images = 64\noptions = {{ {options} }}\n'
    )
    done = cli.call("run", file, "--output", out)
    ray_runs[backend] = out
    rows = episodes(out).collect()

    assert done.returncode == 0, done.stderr
    assert read_certificates(out)["embedded"].status == "equal"
    assert rows.height == 2 * (7 * 3 + 2) and rows["error"].null_count() == rows.height
    assert rows.filter(condition="reference")["correct"].mean() > 0.6 and rows["reply_tokens"].min() > 0
    first, *rest = (turns(run).filter(turn=0).select("key", "reply").collect() for run in ray_runs.values())
    for other in rest:
        both = first.join(other, on="key", suffix="_other")
        assert both.height == first.height, "the backend is no part of an episode's key"
        assert (both["reply"] == both["reply_other"]).mean() > 0.95
