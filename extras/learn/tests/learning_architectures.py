"""Train tiny random checkpoints of architectures other than the embedded model's, and print JSON lines.

``python learning_architectures.py FOLDER TEST LEARNT NAME ...``: runs in its own process, because the packages that some
processors need are on its path only (``tests.actors.vision_packages``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event
from typing import Any

import tomli_w
import torch
from transformers import AutoTokenizer

from actors.engine.hf.backend import ModelAndProcessor
from orchestrator.cli.sweep_source import read_models
from proactive_learn import settings, trainer
from proactive_learn.progress import TrainingProgress
from proactive_learn.states import load_training_states
from proactive_learn.verdict_trainer import VerdictTrainer, grpo_config
from sweeps.load import load
from tests.actors.architectures import write

ROLLOUTS, QUESTIONS, LETTERS = 8, 6, 3.0
SHORT = {
    "rollouts": ROLLOUTS, "batch": 64, "steps": 2, "max_tokens": 1, "learning_rate": 1e-2, "rp": 1.0,
    "exploration": {"hint": 0.5}, "lora": {"dropout": 0.0},
}  # fmt: skip


def write_sweep(name: str, folder: Path, test: Path, learnt: Path) -> Path:
    """Write the checkpoint and, beside it, a sweep file that trains it."""
    source = boost_letters(write(name, folder / name))
    model = {"name": name, "source": str(source), "backend": "transformers", "gpus": 0, "dtype": "float32"}
    table = {
        "name": name, "data": str(test), "models": [name], "scenarios": ["QD", "ROD"], "model": [model],
        "tracking": {"uri": "none"}, "train": {"model": name, "data": str(learnt), **SHORT},
    }  # fmt: skip
    file = folder / f"{name}.toml"
    file.write_text(tomli_w.dumps(table), encoding="utf-8")
    return file


def boost_letters(checkpoint: Path) -> Path:
    """Enlarge the weights of letters in the last layer; otherwise random replies hardly ever name an option."""
    from safetensors.torch import load_file, save_file

    file = checkpoint / "model.safetensors"
    weights, words = load_file(file), AutoTokenizer.from_pretrained(checkpoint)
    (last,) = (key for key in weights if key.endswith("lm_head.weight"))
    weights[last][words.convert_tokens_to_ids(list("ABCDEF"))] *= LETTERS
    save_file(weights, file, {"format": "pt"})
    return checkpoint


def compare_with_sweep(file: Path, folder: Path) -> dict[str, Any]:
    """Say which inputs of the trainer are those of a sweep's plain questions."""
    training = settings.load(file)
    train, states = training.train, load_training_states(training)
    progress = TrainingProgress(training, folder, print)
    verdict_trainer = VerdictTrainer(training, grpo_config(train, folder, 1), states, progress, Event())
    rows = [verdict_trainer.train_dataset[number] for number in range(QUESTIONS) for _ in range(ROLLOUTS)]
    learnt = verdict_trainer._generate_and_score_completions(rows)
    expected = verdict_trainer.student.inputs([states[row["state_index"]].job() for row in rows])
    length = expected["input_ids"].shape[1]
    equal = {
        name: torch.equal(learnt[name][:, :length] if name.endswith("token_type_ids") else learnt[name], expected[name])
        for name in expected
        if name not in ("input_ids", "attention_mask")
    }
    return {"tokens": torch.equal(learnt["prompt_ids"], expected["input_ids"]), "fields": equal}


def train(file: Path, folder: Path) -> dict[str, Any]:
    """Train, and say how far the trained model moves a sweep's logits."""
    training = settings.load(file)
    done = trainer.train(training, folder / "run", lambda line: None)
    models = load(file, [], read_models([str(done.model)])).models
    before, after = (ModelAndProcessor(settings.transformers_spec(model)) for model in models)
    tensors = before.inputs([load_training_states(training)[0].job()])
    with torch.no_grad():
        moved = (before.network(**tensors).logits - after.network(**tensors).logits).abs().max()
    return {"steps": done.steps, "moved": float(moved)}


def main(folder: Path, test: Path, learnt: Path, names: list[str]) -> None:
    for name in names:
        file = write_sweep(name, folder, test, learnt)
        outcome = {**compare_with_sweep(file, folder / "asked"), **train(file, folder / f"{name}.trained")}
        print(json.dumps({"name": name, **outcome}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*map(Path, sys.argv[1:4]), sys.argv[4:])
