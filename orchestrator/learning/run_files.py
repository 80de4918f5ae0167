"""The files of a training: resolved settings, the checkpoint, parts of rollouts, the weights and ``model.toml``.

Each is there whole or not at all; a folder belongs to one set of settings, and what was stored before a kill is kept.
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
from orchestrator.storage import atomic_write
from orchestrator.storage.run_folder import differences

if TYPE_CHECKING:
    import torch

    from orchestrator.learning.policy import Policy

RESOLVED, CHECKPOINT, ROLLOUTS, MODEL = "train.resolved.toml", "checkpoint.pt", "rollouts", "model.toml"
SHOWN = 6
"""Differences that a refusal lists."""
RANKS_OF_VLLM = (16, 32, 64, 128, 256, 320, 512)
"""``max_lora_rank`` in vLLM 0.32 (``vllm.config.lora``)."""
ROLLOUT = {
    "step": pl.Int64, "group": pl.Int64, "state": pl.String, "scenario": pl.String, "kind": pl.String,
    "variant": pl.String, "reply": pl.String, "action": pl.String, "right": pl.Boolean, "asked": pl.Boolean,
    "reward": pl.Float64, "advantage": pl.Float64, "logprob": pl.Float64, "tokens": pl.Int64,
}  # fmt: skip
"""Columns of the rollouts: one row a reply. ``advantage`` is null in a group without differences."""


def claim(folder: Path, train: Train) -> None:
    """Write the resolved settings; raises TrainError where the folder holds steps that were trained with other ones."""
    path = folder / RESOLVED
    settings = _plain(train.settings)
    if path.exists() and begun(folder):
        try:
            old = tomllib.loads(path.read_text("utf-8"))["settings"]
        except (OSError, ValueError, KeyError):
            raise TrainError(f"{path} cannot be read as settings of a training; pass another --output") from None
        if changed := differences(old, settings):
            changes = "; ".join(changed[:SHOWN]).replace("this sweep says", "now it is")
            raise TrainError(f"{folder} holds a training with other settings: {changes}; pass another --output")
    table = train.model_dump(mode="json", exclude_none=True)
    atomic_write.write(path, tomli_w.dumps({"train": table, "settings": settings}).encode())


def begun(folder: Path) -> bool:
    """Return True if a folder has a checkpoint of either engine, or what came of a training."""
    return any((folder / name).exists() for name in (CHECKPOINT, MODEL)) or any(folder.glob("checkpoint-*"))


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as TOML gives them back: without what is not set."""
    return {k: _plain(v) if isinstance(v, dict) else v for k, v in settings.items() if v is not None}


def read_train_table(folder: Path) -> dict[str, Any]:
    """The ``train`` table that a folder was trained with; raises TrainError."""
    try:
        table: dict[str, Any] = tomllib.loads((folder / RESOLVED).read_text("utf-8"))["train"]
        return table
    except (OSError, ValueError, KeyError):
        raise TrainError(f"{folder} holds no training; `proactive-sweep train` makes one") from None


# -- checkpoint --------------------------------------------------------------------------------------------------------
def save_checkpoint(folder: Path, step: int, policy: Policy, adamw: torch.optim.Optimizer) -> None:
    """Weights and the optimizer's state after ``step`` steps; chance needs none, it is drawn by (seed, step)."""
    import torch

    buffer = io.BytesIO()
    torch.save({"step": step, "weights": policy.weights(), "adamw": adamw.state_dict()}, buffer)
    atomic_write.write(folder / CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: Path, policy: Policy, adamw: torch.optim.Optimizer) -> int | None:
    """Take up the checkpoint; how many steps it has behind it, None where there is none. Raises TrainError for a damaged one."""
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
        raise TrainError(f"{path} is damaged; remove it, and the same command begins anew") from None


# -- rollouts ----------------------------------------------------------------------------------------------------------
def rows(step: int, rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """One row a reply."""
    return [
        {
            "step": step, "group": r.group, "state": r.state.key, "scenario": r.state.scenario, "kind": r.state.kind,
            "variant": r.variant, "reply": r.reply, "action": r.outcome.action.value, "right": r.outcome.right,
            "asked": r.outcome.asked, "reward": r.reward, "advantage": r.advantage, "logprob": r.said.logprob,
            "tokens": len(r.said.tokens),
        }
        for r in rollouts
    ]  # fmt: skip


def write_rollouts(folder: Path, first: int, last: int, rows: Sequence[dict[str, Any]]) -> None:
    """The rollouts of steps ``first`` to ``last``; a resumed run writes the same part again."""
    if rows:
        parts = folder / ROLLOUTS
        parts.mkdir(exist_ok=True)
        atomic_write.write_table(parts / f"steps-{first:06d}-{last:06d}.parquet", pl.DataFrame(rows, schema=ROLLOUT))


def forget_rollouts(folder: Path, step: int) -> None:
    """Remove the parts that a killed attempt wrote after its last checkpoint, which has ``step`` steps behind it."""
    for part in (folder / ROLLOUTS).glob("steps-*.parquet"):
        if int(part.stem.split("-")[1]) >= step:
            part.unlink()


def read_rollouts(folder: Path) -> pl.DataFrame:
    """All rollouts of a training, steps in order."""
    parts = sorted((folder / ROLLOUTS).glob("steps-*.parquet"))
    rollouts = pl.concat([pl.read_parquet(part) for part in parts]) if parts else pl.DataFrame(schema=ROLLOUT)
    return rollouts.sort("step", "group", maintain_order=True)


def measures(rollouts: pl.DataFrame) -> dict[str, float]:
    """Return the measures of one step's rollouts: mean reward, live groups, percent that ask on hidden and clear views."""
    groups = rollouts.group_by("group").agg(pl.col("advantage").is_not_null().any())
    measured = {"reward": _mean(rollouts["reward"]), "live_groups": _mean(groups["advantage"])}
    for kind in ("hidden", "clear"):
        part = rollouts.filter(pl.col("kind") == kind, pl.col("variant") == "plain")
        if part.height:
            measured[f"asks_{kind}"] = 100 * _mean(part["action"] == "suggestion")
            measured[f"right_{kind}"] = 100 * _mean(part["right"])
    return measured


def _mean(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)


# -- the result --------------------------------------------------------------------------------------------------------
def publish(folder: Path, train: Train, save: Callable[[Path], None]) -> Path:
    """Keep the trained weights that ``save`` writes into a folder, and ``model.toml``, a ``[[model]]`` for sweeps; its path.

    The weights' folder is named by their digest, so other weights make other episodes (``ModelSpec.identity``).
    """
    kind = "weights" if train.full else "adapter"
    fresh = folder / f"new-{kind}"
    rmtree(fresh, ignore_errors=True)
    save(fresh)
    for old in folder.glob(f"{kind}-*"):
        rmtree(old)
    weights = fresh.rename(folder / f"{kind}-{digest_of(fresh)}")
    atomic_write.write(folder / MODEL, tomli_w.dumps({"model": [entry(folder, train, weights)]}).encode())
    return folder / MODEL


def digest_of(weights: Path) -> str:
    """16 hex digits of the weights in a folder."""
    digest = blake2b(digest_size=8)
    for part in sorted(weights.glob("*.safetensors")):
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def entry(folder: Path, train: Train, weights: Path) -> dict[str, Any]:
    """The ``[[model]]`` table: the model before with its adapter, or the new weights in its place."""
    base = train.model.model_dump(mode="json", exclude_defaults=True)
    name = re.sub(r"[^A-Za-z0-9._+-]", "-", f"{train.model.name}-{folder.resolve().name}")
    learned: dict[str, Any] = (
        {"source": str(weights.resolve()), "revision": ""} if train.full else {"lora": str(weights.resolve())}
    )
    if not train.full and train.model.backend == "vllm":
        learned["options"] = {**train.model.options, "max_lora_rank": rank_of_vllm(train.lora.r)}
    note = f"{train.model.name} trained on {', '.join(train.scenarios)} with rp {train.rp:g}, seed {train.seed}"
    table = {**base, "backend": train.model.backend, "gpus": train.model.gpus, "name": name, **learned, "note": note}
    return {key: value for key, value in table.items() if key != "paper" and value != ""}


def rank_of_vllm(r: int) -> int:
    """The largest rank that vLLM is told to make room for: it takes some numbers alone, and 16 where none is said."""
    return next(rank for rank in RANKS_OF_VLLM if rank >= r)
