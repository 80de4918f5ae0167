"""The files of a training: resolved settings, tables of rollouts, the trainer's checkpoints, the weights and ``model.toml``.

Each file is written atomically. A folder belongs to one set of settings; a killed training keeps its last checkpoint.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

import polars as pl
import tomli_w

from orchestrator.storage import safe_write
from orchestrator.storage.run_folder import differences
from proactive_learn.settings import REMOVED, Train, TrainError

RESOLVED, ROLLOUTS, MODEL = "train.resolved.toml", "rollouts", "model.toml"
MAX_DIFFERENCES = 6
VLLM_LORA_RANKS = (16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM 0.32 takes for ``max_lora_rank`` (``vllm.config.lora``)."""
ROLLOUT_SCHEMA = {
    "step": pl.Int64, "group": pl.Int64, "state": pl.String, "scenario": pl.String, "kind": pl.String,
    "variant": pl.String, "reply": pl.String, "action": pl.String, "right": pl.Boolean, "asked": pl.Boolean,
    "reward": pl.Float64, "advantage": pl.Float64, "tokens": pl.Int64,
}  # fmt: skip
"""Columns of the rollouts, one row per reply; ``variant`` is ``hint`` if it was sampled from the hinted question."""


def claim(folder: Path, train: Train) -> None:
    """Write the resolved settings; raises TrainError if the folder has steps that were trained with other settings."""
    path = folder / RESOLVED
    if path.exists() and ((folder / MODEL).exists() or any(folder.glob("checkpoint*"))):
        try:
            settings = tomllib.loads(path.read_text("utf-8"))["settings"]
            old = {name: value for name, value in settings.items() if name not in REMOVED}
        except (OSError, ValueError, KeyError):
            raise TrainError(f"{path} cannot be read as settings of a training; pass another --output") from None
        if changed := differences(old, train.settings, between=", now it is "):
            changes = "; ".join(changed[:MAX_DIFFERENCES])
            raise TrainError(f"{folder} holds a training with other settings: {changes}; pass another --output")
    table = train.model_dump(mode="json", exclude_none=True)
    safe_write.write(path, tomli_w.dumps({"train": table, "settings": train.settings}).encode())


def read_train_table(folder: Path) -> dict[str, Any]:
    """Return the ``train`` table of a training's folder; raises TrainError."""
    try:
        table: dict[str, Any] = tomllib.loads((folder / RESOLVED).read_text("utf-8"))["train"]
        return table
    except (OSError, ValueError, KeyError):
        raise TrainError(f"{folder} has no training; `proactive-sweep train` writes one") from None


def complete_checkpoints(output: Path) -> dict[int, Path]:
    """Return steps -> folder of the checkpoints with ``trainer_state.json``, which the trainer writes last."""
    checkpoints = {}
    for folder in output.glob("checkpoint-*"):
        with suppress(OSError, ValueError, KeyError):
            checkpoints[int(json.loads((folder / "trainer_state.json").read_text("utf-8"))["global_step"])] = folder
    return checkpoints


def finished_steps(output: Path) -> int:
    """Return the number of steps of the last complete checkpoint."""
    return max(complete_checkpoints(output), default=0)


def write_rollouts(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rollouts of some steps; a resumed training writes the same part again."""
    parts = folder / ROLLOUTS
    parts.mkdir(exist_ok=True)
    name = f"steps-{rows[0]['step']:06d}-{rows[-1]['step']:06d}.parquet"
    safe_write.write(parts / name, pl.DataFrame(rows, schema=ROLLOUT_SCHEMA))


def remove_rollouts(folder: Path, step: int) -> None:
    """Remove the parts that begin at ``step`` or later, which a killed attempt wrote after its last checkpoint."""
    for part in (folder / ROLLOUTS).glob("steps-*.parquet"):
        if int(part.stem.split("-")[1]) >= step:
            part.unlink()


def rollout_measures(rollouts: pl.DataFrame) -> dict[str, float]:
    """Return the mean reward, the share of groups with unequal rewards, and the percentages of asks and right replies by view."""
    groups = rollouts.group_by("group").agg(pl.col("reward").n_unique() > 1)
    measures = {"reward": _mean(rollouts["reward"]), "live_groups": _mean(groups["reward"])}
    for kind in ("hidden", "clear"):
        part = rollouts.filter(pl.col("kind") == kind, pl.col("variant") == "plain")
        if part.height:
            measures[f"asks_{kind}"] = 100 * _mean(part["action"] == "suggestion")
            measures[f"right_{kind}"] = 100 * _mean(part["right"])
    return measures


def _mean(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)


def publish(folder: Path, train: Train) -> Path:
    """Write the weights of the last checkpoint and ``model.toml``, a ``[[model]]`` table for sweeps; return its path.

    The folder of the weights is named by their digest, so different weights have different keys (``ModelSpec.identity``).
    """
    checkpoints = complete_checkpoints(folder)
    fresh = folder / "new-adapter"
    rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for file in checkpoints[max(checkpoints)].glob("adapter_*"):  # the rest belongs to the optimizer or the trainer
        copyfile(file, fresh / file.name)
    for old in folder.glob("adapter-*"):
        rmtree(old)
    digest = blake2b((fresh / "adapter_model.safetensors").read_bytes(), digest_size=8).hexdigest()
    weights = fresh.rename(folder / f"adapter-{digest}")
    safe_write.write(folder / MODEL, tomli_w.dumps({"model": [model_entry(folder, train, weights)]}).encode())
    return folder / MODEL


def model_entry(folder: Path, train: Train, weights: Path) -> dict[str, Any]:
    """Return the ``[[model]]`` table: the base model with its adapter."""
    base = train.model.model_dump(mode="json", exclude_defaults=True)
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", f"{train.model.name}-{folder.resolve().name}")
    trained: dict[str, Any] = {"lora": str(weights.resolve())}
    if train.model.backend == "vllm":
        rank = next(rank for rank in VLLM_LORA_RANKS if rank >= train.lora.r)
        trained["options"] = {**train.model.options, "max_lora_rank": rank}
    note = f"{train.model.name} trained on {', '.join(train.scenarios)} with rp {train.rp:g}, seed {train.seed}"
    table = {**base, "backend": train.model.backend, "gpus": train.model.gpus, "name": name, **trained, "note": note}
    return {key: value for key, value in table.items() if key != "paper" and value != ""}
