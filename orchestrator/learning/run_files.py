"""The files of a training: resolved settings, the checkpoint, tables of rollouts, the weights and ``model.toml``.

Each file is written atomically. A folder belongs to one set of settings; a killed training keeps its last checkpoint.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from pickle import UnpicklingError
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import polars as pl
import tomli_w

from orchestrator.learning.rollouts import Rollout
from orchestrator.learning.settings import Train, TrainError
from orchestrator.storage import safe_write
from orchestrator.storage.run_folder import differences

if TYPE_CHECKING:
    import torch

    from orchestrator.learning.policy import Policy

RESOLVED, CHECKPOINT, ROLLOUTS, MODEL = "train.resolved.toml", "checkpoint.pt", "rollouts", "model.toml"
MAX_DIFFERENCES = 6
"""Differences listed in an error message."""
VLLM_LORA_RANKS = (16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM 0.32 takes for ``max_lora_rank`` (``vllm.config.lora``)."""
ROLLOUT_SCHEMA = {
    "step": pl.Int64, "group": pl.Int64, "state": pl.String, "scenario": pl.String, "kind": pl.String,
    "variant": pl.String, "reply": pl.String, "action": pl.String, "right": pl.Boolean, "asked": pl.Boolean,
    "reward": pl.Float64, "advantage": pl.Float64, "logprob": pl.Float64, "tokens": pl.Int64,
}  # fmt: skip
"""Columns of the rollouts, one row per reply; ``advantage`` is null in a group with equal rewards."""


def claim(folder: Path, train: Train) -> None:
    """Write the resolved settings; raises TrainError if the folder has steps that were trained with other settings."""
    path = folder / RESOLVED
    settings = {name: value for name, value in train.settings.items() if value is not None}
    if path.exists() and has_steps(folder):
        try:
            old = tomllib.loads(path.read_text("utf-8"))["settings"]
        except (OSError, ValueError, KeyError):
            raise TrainError(f"{path} cannot be read as settings of a training; pass another --output") from None
        if changed := differences(old, settings, between=", now it is "):
            changes = "; ".join(changed[:MAX_DIFFERENCES])
            raise TrainError(f"{folder} holds a training with other settings: {changes}; pass another --output")
    table = train.model_dump(mode="json", exclude_none=True)
    safe_write.write(path, tomli_w.dumps({"train": table, "settings": settings}).encode())


def has_steps(folder: Path) -> bool:
    """Return True if a folder has a checkpoint of either engine or a trained model."""
    return any((folder / name).exists() for name in (CHECKPOINT, MODEL)) or any(folder.glob("checkpoint-*"))


def read_train_table(folder: Path) -> dict[str, Any]:
    """Return the ``train`` table of a training's folder; raises TrainError."""
    try:
        table: dict[str, Any] = tomllib.loads((folder / RESOLVED).read_text("utf-8"))["train"]
        return table
    except (OSError, ValueError, KeyError):
        raise TrainError(f"{folder} has no training; `proactive-sweep train` writes one") from None


# -- checkpoint --------------------------------------------------------------------------------------------------------
def save_checkpoint(folder: Path, step: int, policy: Policy, adamw: torch.optim.Optimizer) -> None:
    """Save weights and the optimizer's state after ``step`` steps; random draws need no state, as they depend on (seed, step)."""
    import torch

    buffer = io.BytesIO()
    torch.save({"step": step, "weights": policy.weights(), "adamw": adamw.state_dict()}, buffer)
    safe_write.write(folder / CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: Path, policy: Policy, adamw: torch.optim.Optimizer) -> int | None:
    """Restore the checkpoint and return its number of steps, None if there is no checkpoint; raises TrainError if damaged."""
    import torch

    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        checkpoint = torch.load(path, weights_only=True, map_location=policy.device)
        policy.restore(checkpoint["weights"])
        adamw.load_state_dict(checkpoint["adamw"])
        return int(checkpoint["step"])
    except (RuntimeError, ValueError, KeyError, TypeError, EOFError, UnpicklingError):
        raise TrainError(f"{path} is damaged; remove it to start over") from None


# -- rollouts ----------------------------------------------------------------------------------------------------------
def rollout_rows(step: int, rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """Return one row per reply."""
    return [
        {
            "step": step, "group": rollout.group, "state": rollout.state.key, "scenario": rollout.state.scenario,
            "kind": rollout.state.kind, "variant": rollout.variant, "reply": rollout.reply,
            "action": rollout.outcome.action.value, "right": rollout.outcome.right, "asked": rollout.outcome.is_suggestion,
            "reward": rollout.reward, "advantage": rollout.advantage, "logprob": rollout.completion.logprob,
            "tokens": len(rollout.completion.tokens),
        }
        for rollout in rollouts
    ]  # fmt: skip


def write_rollouts(folder: Path, first: int, last: int, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rollouts of steps ``first`` to ``last``; a resumed training writes the same part again."""
    if rows:
        parts = folder / ROLLOUTS
        parts.mkdir(exist_ok=True)
        safe_write.write_table(
            parts / f"steps-{first:06d}-{last:06d}.parquet", pl.DataFrame(rows, schema=ROLLOUT_SCHEMA)
        )


def remove_rollouts(folder: Path, step: int) -> None:
    """Remove the parts that begin at ``step`` or later, which a killed attempt wrote after its last checkpoint."""
    for part in (folder / ROLLOUTS).glob("steps-*.parquet"):
        if int(part.stem.split("-")[1]) >= step:
            part.unlink()


def rollout_measures(rollouts: pl.DataFrame) -> dict[str, float]:
    """Return the mean reward, the share of groups with unequal rewards, and the percentages of asks and right replies by view."""
    groups = rollouts.group_by("group").agg(pl.col("advantage").is_not_null().any())
    measures = {"reward": _mean(rollouts["reward"]), "live_groups": _mean(groups["advantage"])}
    for kind in ("hidden", "clear"):
        part = rollouts.filter(pl.col("kind") == kind, pl.col("variant") == "plain")
        if part.height:
            measures[f"asks_{kind}"] = 100 * _mean(part["action"] == "suggestion")
            measures[f"right_{kind}"] = 100 * _mean(part["right"])
    return measures


def _mean(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)


# -- the model ---------------------------------------------------------------------------------------------------------
def publish(folder: Path, train: Train, save: Callable[[Path], None]) -> Path:
    """Write the trained weights with ``save``, and ``model.toml``, a ``[[model]]`` table for sweeps; return its path.

    The folder of the weights is named by their digest, so different weights have different keys (``ModelSpec.identity``).
    """
    kind = "weights" if train.full else "adapter"
    fresh = folder / f"new-{kind}"
    rmtree(fresh, ignore_errors=True)
    save(fresh)
    for old in folder.glob(f"{kind}-*"):
        rmtree(old)
    weights = fresh.rename(folder / f"{kind}-{weights_digest(fresh)}")
    safe_write.write(folder / MODEL, tomli_w.dumps({"model": [model_entry(folder, train, weights)]}).encode())
    return folder / MODEL


def weights_digest(weights: Path) -> str:
    """Return 16 hex digits of the weights in a folder."""
    digest = blake2b(digest_size=8)
    for part in sorted(weights.glob("*.safetensors")):
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def model_entry(folder: Path, train: Train, weights: Path) -> dict[str, Any]:
    """Return the ``[[model]]`` table: the base model with its adapter, or with the new weights as its source."""
    base = train.model.model_dump(mode="json", exclude_defaults=True)
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", f"{train.model.name}-{folder.resolve().name}")
    trained: dict[str, Any] = (
        {"source": str(weights.resolve()), "revision": ""} if train.full else {"lora": str(weights.resolve())}
    )
    if not train.full and train.model.backend == "vllm":
        trained["options"] = {**train.model.options, "max_lora_rank": vllm_lora_rank(train.lora.r)}
    note = f"{train.model.name} trained on {', '.join(train.scenarios)} with rp {train.rp:g}, seed {train.seed}"
    table = {**base, "backend": train.model.backend, "gpus": train.model.gpus, "name": name, **trained, "note": note}
    return {key: value for key, value in table.items() if key != "paper" and value != ""}


def vllm_lora_rank(r: int) -> int:
    """Return the smallest ``max_lora_rank`` of vLLM that holds an adapter of rank ``r``."""
    return next(rank for rank in VLLM_LORA_RANKS if rank >= r)
