"""The embedded model uses the picture: it recognizes clear views, not hidden ones, and a swapped picture misleads it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the embedded model needs torch (extra `transformers`)")
pytest.importorskip("transformers", reason="the embedded model needs transformers (extra `transformers`)")

from actors.embedded.training import evaluation
from envs import SCENARIOS
from sweeps.conditions import CONDITIONS

FOLDER = Path(__file__).parents[2] / "actors" / "embedded"
SEED = 980_000
"""Neither trained on nor looked at while training."""
EACH = 30


@pytest.fixture(scope="module")
def answerer() -> evaluation.Answerer:
    return evaluation.Answerer(FOLDER)


@pytest.fixture(scope="module")
def candidates() -> dict[str, list[evaluation.Candidate]]:
    return {name: evaluation.candidates(name, EACH, SEED) for name in SCENARIOS}


@pytest.fixture(scope="module")
def clear(answerer: evaluation.Answerer, candidates: dict[str, list[evaluation.Candidate]]) -> dict[str, float]:
    """Scenario -> percent right on the reference view."""
    return {name: evaluation.reference(answerer, candidates[name]) for name in SCENARIOS}


def play_first_turns(
    answerer: evaluation.Answerer, candidates: dict[str, list[evaluation.Candidate]], condition: str
) -> list[evaluation.Game]:
    """Play the first turn of every sample."""
    return [
        game
        for name in SCENARIOS
        for game in evaluation.play_games(answerer, candidates[name], CONDITIONS[condition], turns=1)
    ]


@pytest.fixture(scope="module")
def hidden_games(
    answerer: evaluation.Answerer, candidates: dict[str, list[evaluation.Candidate]]
) -> list[evaluation.Game]:
    return play_first_turns(answerer, candidates, "zero-shot")


def mean(values: dict[str, float]) -> float:
    return sum(values.values()) / len(values)


def test_folder_is_small_and_complete() -> None:
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    assert sum(files.values()) < 8e6
    wanted = {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "processor_config.json",
        "chat_template.jinja",
        "MODEL_CARD.md",
        "training.log",
    }
    assert wanted <= set(files)


def test_clear_views_are_recognized(clear: dict[str, float]) -> None:
    assert mean(clear) >= 85, clear
    assert min(clear.values()) >= 70, clear


def test_hidden_first_views_are_not_recognized(clear: dict[str, float], hidden_games: list[evaluation.Game]) -> None:
    assert evaluation.named_at_once(hidden_games) < mean(clear) / 3


def test_hidden_first_views_get_a_mixture_of_replies(hidden_games: list[evaluation.Game]) -> None:
    done = evaluation.actions(hidden_games)
    assert all(done[kind] >= 5 for kind in ("suggestion", "abstention", "category")), done
    assert done.get("unparsable", 0.0) < 3, done


def test_swapped_picture_lowers_accuracy_to_chance(
    answerer: evaluation.Answerer, candidates: dict[str, list[evaluation.Candidate]]
) -> None:
    swapped = {name: evaluation.reference(answerer, candidates[name], swapped=True) for name in SCENARIOS}
    assert mean(swapped) < 40, swapped


def test_a_hint_makes_it_ask_more(
    answerer: evaluation.Answerer,
    candidates: dict[str, list[evaluation.Candidate]],
    hidden_games: list[evaluation.Game],
) -> None:
    hinted = play_first_turns(answerer, candidates, "hint")
    assert evaluation.actions(hinted)["suggestion"] > evaluation.actions(hidden_games)["suggestion"] + 5


def test_examples_make_it_ask_more(
    answerer: evaluation.Answerer,
    candidates: dict[str, list[evaluation.Candidate]],
    hidden_games: list[evaluation.Game],
) -> None:
    with_examples = [
        game
        for name in ("ROD", "MVP-N")
        for game in evaluation.play_games(answerer, candidates[name], CONDITIONS["icl-1"], turns=1)
    ]
    plain = [game for game in hidden_games if game.sample.scenario in ("ROD", "MVP-N")]
    assert evaluation.actions(with_examples)["suggestion"] > evaluation.actions(plain)["suggestion"] + 5


def test_tokens_and_pixels_match_training(
    answerer: evaluation.Answerer, candidates: dict[str, list[evaluation.Candidate]]
) -> None:
    import numpy as np

    from actors.embedded.training import text_processor
    from actors.embedded.training.pictures import shrink

    tokenizer = answerer.processor.tokenizer.backend_tokenizer
    for name in SCENARIOS:
        candidate = candidates[name][0]
        view = SCENARIOS[name].view(candidate.sample, SCENARIOS[name].initial(candidate.sample))
        question, picture = evaluation.prompts.question_message(view), candidate.picture(view.image)
        inputs = answerer.inputs([evaluation.Question((question,), (picture,))])
        ids, _ = text_processor.encode_conversation(tokenizer, (question,), (False,))
        assert inputs["input_ids"][0].tolist() == ids + tokenizer.encode(text_processor.SPEAKERS["assistant"]).ids
        pixels = np.asarray(shrink(picture)).transpose(2, 0, 1) / 127.5 - 1
        assert np.abs(pixels - inputs["pixel_values"][0, 0].numpy()).max() < 1e-5


def test_taught_replies_are_among_options(tmp_path: Path) -> None:
    from random import Random

    from actors.embedded.training import pictures, training_data

    bank = pictures.draw_bank(tmp_path, laps=1, first_seed=SEED, count=10)
    teacher, rng = training_data.TrainingData(bank, lap=10), Random(0)
    for example in [*(teacher.short(rng) for _ in range(150)), *(teacher.long(rng) for _ in range(60))]:
        *messages, reply = example.conversation
        options = [line.split(". ", 1)[1] for line in messages[-1].text.splitlines() if line[1:3] == ". "]
        assert not options or reply.text in options
        assert sum(len(message.images) for message in messages) == len(example.rows)
        assert all(0 <= row < len(bank.pixels) for row in example.rows)
