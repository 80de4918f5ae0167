"""Train tiny random checkpoints of architectures other than the embedded model's, and print JSON lines.

``python -m tests.orchestrator.learning.rehearsal FOLDER TEST LEARNT NAME ...``: runs in its own process, because the packages
that some processors need are on its path only (``tests.actors.vision_packages``).
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
from orchestrator.learning import settings, trainer
from orchestrator.learning.plan import load_training_states
from orchestrator.learning.policy import Policy
from orchestrator.learning.progress import MetricsLog, TrainingProgress
from orchestrator.learning.settings import TrainError, Training
from orchestrator.learning.states import TrainingState
from orchestrator.learning.student import Student, transformers_spec
from sweeps.load import load
from tests.actors.architectures import write
from tests.orchestrator.learning.rollout_files import read_rollouts

STEPS, ROLLOUTS, ASKED, TOKENS, LETTERS = 2, 8, 6, 3, 3.0
SHORT = {
    "rollouts": ROLLOUTS, "batch": 64, "steps": STEPS, "max_tokens": 1, "learning_rate": 1e-2, "rp": 1.0,
    "checkpoint_every": 1, "evaluate_every": 2, "evaluate_samples": 2, "lora": {"dropout": 0.0},
}  # fmt: skip
"""Dropout is off so that the probabilities of a sampled reply can be recomputed."""


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


def train_with_trl(file: Path, folder: Path) -> dict[str, Any]:
    """Train with TRL, and report what its trainer reads and stores and the model it writes."""
    training = settings.load(file, ["train.engine=trl"])
    states = load_training_states(training)
    done = trainer.train(training, folder / "trl", lambda line: None)
    outcome = training_outcome(file, training, done.model, states)
    try:
        return {**outcome, **compare_with_sweep(training, states, folder / "asked")}
    except (ValueError, KeyError) as problem:
        return {**outcome, "not compared": str(problem)}


def compare_with_sweep(training: Training, states: list[TrainingState], folder: Path) -> dict[str, Any]:
    """Compare the trainer's input tensors and log-probabilities with those of a sweep."""
    from orchestrator.learning.trl_trainer import VerdictTrainer, grpo_config

    train = training.train.model_copy(update={"max_tokens": TOKENS})
    progress = TrainingProgress(train, MetricsLog(training.sweep, train, folder), print)
    verdict_trainer = VerdictTrainer(
        Training(training.sweep, train), grpo_config(train, folder), states, progress, Event()
    )
    rows = [verdict_trainer.train_dataset[k] for k in range(ASKED) for _ in range(ROLLOUTS)]
    with capture_sampling(verdict_trainer) as sampled:
        learnt = verdict_trainer._generate_and_score_completions(rows)
    sampled_states = [states[row["state_index"]] for row in rows]
    expected = verdict_trainer.student.model.inputs([state.job() for state in sampled_states])
    prompt = expected["input_ids"].shape[1]
    replies = zip(
        sampled_states, learnt["completion_ids"], learnt["completion_mask"], verdict_trainer.logprobs, strict=True
    )
    gaps = [
        abs(logprob - full_pass_logprob(verdict_trainer.student, state, ids[mask.bool()].tolist()))
        for state, ids, mask, logprob in replies
    ]
    fields = [name for name in expected if name not in ("input_ids", "attention_mask")]
    words = [
        row[mask.bool()].tolist() for row, mask in zip(expected["input_ids"], expected["attention_mask"], strict=True)
    ]
    return {
        "fields": sorted(fields),
        "sampled from": [name for name in sorted(fields) if tensors_equal(sampled[name], expected[name])],
        "learnt under": [
            name for name in sorted(fields) if tensors_equal(trim_reply(name, learnt[name], prompt), expected[name])
        ],
        "tokens": [list(ids) for ids in sampled["ids"]] == words
        and tensors_equal(learnt["prompt_ids"], expected["input_ids"]),
        "logprob gap": max(gaps),
    }


@contextmanager
def capture_sampling(verdict_trainer: Any) -> Iterator[dict[str, Any]]:
    """Yield the token ids and image tensors that replies are sampled from inside the block."""
    captured: dict[str, Any] = {}
    sample = verdict_trainer._generate_single_turn

    def record_fields(ids: Any, images: Any, fields: dict[str, Any], *args: Any) -> Any:
        captured.update(fields, ids=ids)
        return sample(ids, images, fields, *args)

    verdict_trainer._generate_single_turn = record_fields
    yield captured
    del verdict_trainer._generate_single_turn


def tensors_equal(actual: Any, expected: torch.Tensor) -> bool:
    tensor = actual if isinstance(actual, torch.Tensor) else pad_rows(actual, expected)
    return tensor.shape == expected.shape and torch.equal(tensor.to(expected.dtype), expected)


def pad_rows(rows: Any, like: torch.Tensor) -> torch.Tensor:
    """Pad token rows on the left as TRL does; leave pictures unchanged."""
    if all(isinstance(row, list) for row in rows):
        rows = [[0] * (like.shape[1] - len(row)) + row for row in rows]
    return torch.tensor(np.array(rows))


def trim_reply(name: str, tensor: torch.Tensor, prompt: int) -> torch.Tensor:
    """Cut off the reply if the tensor has one value per token."""
    return tensor[:, :prompt] if name.endswith("token_type_ids") else tensor


@torch.no_grad()
def full_pass_logprob(student: Student, state: TrainingState, reply: Sequence[int]) -> float:
    """Return the log-probability of a reply, from one pass over question and reply."""
    inputs = student.model.inputs([state.job()])
    ids = torch.cat([inputs["input_ids"], torch.tensor([list(reply)])], 1)
    fields = {k: v for k, v in inputs.items() if k not in ("input_ids", "attention_mask")}
    if "mm_token_type_ids" in fields:
        fields["mm_token_type_ids"] = torch.cat(
            [fields["mm_token_type_ids"], torch.zeros(1, len(reply), dtype=torch.long)], 1
        )
    logits = student.network(input_ids=ids, attention_mask=torch.ones_like(ids), **fields).logits[0]
    scores = logits[-len(reply) - 1 : -1].float().log_softmax(-1)
    return float(scores.gather(-1, torch.tensor(list(reply))[:, None]).sum())


def training_outcome(file: Path, training: Training, model: Path | None, states: list[TrainingState]) -> dict[str, Any]:
    """Return the number of live groups and how far the trained model moves a sweep's logits."""
    assert model is not None
    before, learned = (ModelAndProcessor(transformers_spec(m)) for m in load(file, [], [model]).models)
    tensors = before.inputs([states[0].job()])
    with torch.no_grad():
        moved = (before.network(**tensors).logits - learned.network(**tensors).logits).abs().max()
    rollouts = read_rollouts(model.parent)
    live = rollouts.drop_nulls("advantage")
    return {"rollouts": rollouts.height, "live groups": live.n_unique(["step", "group"]), "moved": float(moved)}


def train_natively(file: Path, folder: Path) -> dict[str, Any]:
    """Train the same checkpoint with the native engine, or return why it refuses."""
    training = settings.load(file, ["train.engine=native"])
    try:
        policy = Policy(training.train)
        policy.greedy([state.job() for state in load_training_states(training)[:ASKED]])
    except TrainError as problem:
        return {"refused": str(problem)}
    states = load_training_states(training)
    sampled = Random(0).sample(states, ASKED)
    groups = policy.sample([state.job() for state in sampled], [2] * ASKED, 1.0, 0)
    gaps = [
        abs(reply.logprob - full_pass_logprob(policy, state, reply.tokens))
        for state, group in zip(sampled, groups, strict=True)
        for reply in group
    ]
    done = trainer.train(training, folder / "native", lambda line: None)
    return {"logprob gap": max(gaps), **training_outcome(file, training, done.model, states)}


def main(folder: Path, test: Path, learnt: Path, names: list[str]) -> None:
    for name in names:
        file = write_sweep(name, folder, test, learnt)
        output = folder / f"{name}.trained"
        for engine, train_engine in (("trl", train_with_trl), ("native", train_natively)):
            try:
                outcome = train_engine(file, output)
            except Exception as problem:
                outcome = {"failed": f"{type(problem).__name__}: {problem}"}
            print(json.dumps({"name": name, "engine": engine, **outcome}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*map(Path, sys.argv[1:4]), sys.argv[4:])
