"""Short trainings of tiny random checkpoints of other architectures than the embedded model's, as JSON lines.

``python -m tests.orchestrator.learning.rehearsal FOLDER TEST LEARNT NAME ...``: a process of its own, because the packages that
some processors need are on its path alone (``tests.actors.vision_packages``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import numpy as np
import tomli_w
import torch
from transformers import AutoTokenizer

from actors.engine.hf.backend import ModelAndProcessor
from orchestrator.learning import run_files, settings, trainer
from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.plan import load_training_states
from orchestrator.learning.policy import Policy
from orchestrator.learning.progress import TrainingProgress
from orchestrator.learning.settings import TrainError, Training
from orchestrator.learning.states import TrainingState
from orchestrator.learning.student import Student, transformers_spec
from sweeps.load import load
from tests.actors.architectures import write

STEPS, ROLLOUTS, ASKED, TOKENS, LETTERS = 2, 8, 6, 3, 3.0
SHORT = {
    "rollouts": ROLLOUTS, "batch": 64, "steps": STEPS, "max_tokens": 1, "learning_rate": 1e-2, "rp": 1.0,
    "checkpoint_every": 1, "evaluate_every": 2, "evaluate_samples": 2, "lora": {"dropout": 0.0},
}  # fmt: skip
"""Dropout is off, so that what a reply was sampled with can be computed again."""


def sweep(name: str, folder: Path, test: Path, learnt: Path) -> Path:
    """A sweep file with a training of the checkpoint, which is written beside it."""
    source = lettered(write(name, folder / name))
    model = {"name": name, "source": str(source), "backend": "transformers", "gpus": 0, "dtype": "float32"}
    table = {
        "name": name, "data": str(test), "models": [name], "scenarios": ["QD", "ROD"], "model": [model],
        "tracking": {"uri": "none"}, "train": {"model": name, "data": str(learnt), **SHORT},
    }  # fmt: skip
    file = folder / f"{name}.toml"
    file.write_text(tomli_w.dumps(table), encoding="utf-8")
    return file


def lettered(checkpoint: Path) -> Path:
    """The checkpoint with larger weights of letters in its last layer: else random replies hardly ever name an option."""
    from safetensors.torch import load_file, save_file

    file = checkpoint / "model.safetensors"
    weights, words = load_file(file), AutoTokenizer.from_pretrained(checkpoint)
    (last,) = (key for key in weights if key.endswith("lm_head.weight"))
    weights[last][words.convert_tokens_to_ids(list("ABCDEF"))] *= LETTERS
    save_file(weights, file, {"format": "pt"})
    return checkpoint


def by_trl(file: Path, folder: Path) -> dict[str, Any]:
    """What TRL's trainer is given, what it stores, and the model that comes of it."""
    made = settings.load(file, ["train.engine=trl"])
    found = load_training_states(made)
    done = trainer.train(made, folder / "trl", lambda line: None)
    come = after(file, made, done.model, found)
    try:
        return {**come, **given(made, found, folder / "asked")}
    except (ValueError, KeyError) as problem:
        return {**come, "not compared": str(problem)}


def given(made: Training, found: list[TrainingState], folder: Path) -> dict[str, Any]:
    """Which tensors of a sweep the trainer samples from and learns under, and how far its log-probabilities are off."""
    from orchestrator.learning.trl_trainer import VerdictTrainer, grpo_config

    train = made.train.model_copy(update={"max_tokens": TOKENS})
    progress = TrainingProgress(train, MetricsLog(made.sweep, train, folder), print)
    asked = VerdictTrainer(Training(made.sweep, train), grpo_config(train, folder), found, progress, Event())
    rows = [asked.train_dataset[k] for k in range(ASKED) for _ in range(ROLLOUTS)]
    with heard(asked) as sampled:
        learnt = asked._generate_and_score_completions(rows)
    asked_for = [found[row["state_index"]] for row in rows]
    mine = asked.student.model.inputs([state.job() for state in asked_for])
    prompt = mine["input_ids"].shape[1]
    told = zip(asked_for, learnt["completion_ids"], learnt["completion_mask"], asked.logprobs, strict=True)
    gaps = [abs(one - whole(asked.student, state, ids[mask.bool()].tolist())) for state, ids, mask, one in told]
    fields = [name for name in mine if name not in ("input_ids", "attention_mask")]
    words = [row[mask.bool()].tolist() for row, mask in zip(mine["input_ids"], mine["attention_mask"], strict=True)]
    return {
        "fields": sorted(fields),
        "sampled from": [name for name in sorted(fields) if equal(sampled[name], mine[name])],
        "learnt under": [name for name in sorted(fields) if equal(trimmed(name, learnt[name], prompt), mine[name])],
        "tokens": [list(one) for one in sampled["ids"]] == words and equal(learnt["prompt_ids"], mine["input_ids"]),
        "logprob gap": max(gaps),
    }


@contextmanager
def heard(asked: Any) -> Iterator[dict[str, Any]]:
    """The token ids and picture tensors that replies are sampled from meanwhile."""
    told: dict[str, Any] = {}
    sample = asked._generate_single_turn

    def listening(ids: Any, images: Any, fields: dict[str, Any], *more: Any) -> Any:
        told.update(fields, ids=ids)
        return sample(ids, images, fields, *more)

    asked._generate_single_turn = listening
    yield told
    del asked._generate_single_turn


def equal(one: Any, two: torch.Tensor) -> bool:
    held = one if isinstance(one, torch.Tensor) else padded(one, two)
    return held.shape == two.shape and torch.equal(held.to(two.dtype), two)


def padded(rows: Any, like: torch.Tensor) -> torch.Tensor:
    """Rows of tokens padded on the left as TRL pads them; pictures as they are."""
    if all(isinstance(row, list) for row in rows):
        rows = [[0] * (like.shape[1] - len(row)) + row for row in rows]
    return torch.tensor(np.array(rows))


def trimmed(name: str, held: torch.Tensor, prompt: int) -> torch.Tensor:
    """Without the reply, for what has a number a token."""
    return held[:, :prompt] if name.endswith("token_type_ids") else held


@torch.no_grad()
def whole(student: Student, state: TrainingState, reply: Sequence[int]) -> float:
    """The log-probability of a reply, from one pass over question and reply."""
    inputs = student.model.inputs([state.job()])
    ids = torch.cat([inputs["input_ids"], torch.tensor([list(reply)])], 1)
    more = {k: v for k, v in inputs.items() if k not in ("input_ids", "attention_mask")}
    if "mm_token_type_ids" in more:
        more["mm_token_type_ids"] = torch.cat(
            [more["mm_token_type_ids"], torch.zeros(1, len(reply), dtype=torch.long)], 1
        )
    logits = student.network(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0]
    scores = logits[-len(reply) - 1 : -1].float().log_softmax(-1)
    return float(scores.gather(-1, torch.tensor(list(reply))[:, None]).sum())


def after(file: Path, made: Training, model: Path | None, found: list[TrainingState]) -> dict[str, Any]:
    """How many groups taught, and how far a sweep's logits move with the trained entry."""
    assert model is not None
    before, learned = (ModelAndProcessor(transformers_spec(m)) for m in load(file, [], [model]).models)
    tensors = before.inputs([found[0].job()])
    with torch.no_grad():
        moved = (before.network(**tensors).logits - learned.network(**tensors).logits).abs().max()
    rollouts = run_files.read_rollouts(model.parent)
    live = rollouts.drop_nulls("advantage")
    return {"rollouts": rollouts.height, "live groups": live.n_unique(["step", "group"]), "moved": float(moved)}


def by_hand(file: Path, folder: Path) -> dict[str, Any]:
    """The native engine on the same checkpoint, or why it does not train it."""
    made = settings.load(file, ["train.engine=native"])
    try:
        policy = Policy(made.train)
        policy.greedy([state.job() for state in load_training_states(made)[:ASKED]])
    except TrainError as problem:
        return {"refused": str(problem)}
    found = load_training_states(made)
    asked = Random(0).sample(found, ASKED)
    said = policy.sample([state.job() for state in asked], [2] * ASKED, 1.0, 0)
    gaps = [
        abs(one.logprob - whole(policy, state, one.tokens))
        for state, group in zip(asked, said, strict=True)
        for one in group
    ]
    done = trainer.train(made, folder / "native", lambda line: None)
    return {"logprob gap": max(gaps), **after(file, made, done.model, found)}


def main(folder: Path, test: Path, learnt: Path, names: list[str]) -> None:
    for name in names:
        file = sweep(name, folder, test, learnt)
        place = folder / f"{name}.trained"
        for engine, tried in (("trl", by_trl), ("native", by_hand)):
            try:
                found = tried(file, place)
            except Exception as problem:
                found = {"failed": f"{type(problem).__name__}: {problem}"}
            print(json.dumps({"name": name, "engine": engine, **found}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*map(Path, sys.argv[1:4]), sys.argv[4:])
