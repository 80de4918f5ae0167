"""The training loop: two processes of one thread each keep equal weights, because they start alike and average their gradients.

A step depends on (seed, step) alone. A checkpoint is written every ``CHECKPOINT_EVERY`` steps, and an interrupted run goes on
from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

CHECKPOINT_EVERY = 250
"""Steps between two checkpoints."""
LOG_EVERY = 50
"""Steps between two lines of the log."""
MAX_GRADIENT_NORM = 4.0
"""Norm of the gradient from which it is scaled down."""
Losses = Callable[[int], dict[str, Tensor]]
"""Step -> named losses; their sum is minimised."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps, learning rate and weight decay of a stage."""

    name: str
    steps: int
    rate: float
    warm: int = 100
    decay: float = 0.05
    """Weight decay."""

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine down to 2%."""
        if step < self.warm:
            return self.rate * (step + 1) / self.warm
        return self.rate * (0.02 + 0.98 * 0.5 * (1 + cos(pi * (step - self.warm) / max(1, self.steps - self.warm))))


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes that train together; they meet through a file, no port."""

    rank: int
    size: int
    folder: Path

    def gather(self) -> None:
        """Joins the others."""
        if self.size > 1:
            dist.init_process_group("gloo", f"file://{self.folder}/rendezvous", rank=self.rank, world_size=self.size)

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Every gradient becomes the mean over the group; absent ones count as zero."""
        own = list(parameters)
        for parameter in own:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.size == 1:
            return
        flat = torch.cat([parameter.grad.flatten() for parameter in own if parameter.grad is not None])
        dist.all_reduce(flat)
        flat /= self.size
        place = 0
        for parameter in own:
            count = parameter.numel()
            parameter.grad = flat[place : place + count].view_as(parameter)
            place += count

    def leave(self) -> None:
        """Lets the others go."""
        if self.size > 1:
            dist.destroy_process_group()


class Optimiser:
    """Muon for the matrices of the transformer layers, AdamW for everything else: twice as quick here as AdamW alone."""

    def __init__(self, modules: nn.ModuleDict, schedule: Schedule) -> None:
        named = [(name, parameter) for name, parameter in modules.named_parameters() if parameter.requires_grad]
        inner = [p for name, p in named if p.ndim == 2 and (".layers." in name or "projection" in name)]
        outer = [p for name, p in named if not (p.ndim == 2 and (".layers." in name or "projection" in name))]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(inner, lr=schedule.rate, weight_decay=schedule.decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(outer, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=schedule.decay),
        ]

    def step(self, rate: float) -> None:
        """One step at ``rate``; gradients are dropped afterwards."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, object]]:
        """What a checkpoint keeps."""
        return [part.state_dict() for part in self.parts]

    def restore(self, state: list[dict[str, object]]) -> None:
        """Goes on from a checkpoint."""
        for part, kept in zip(self.parts, state, strict=True):
            part.load_state_dict(kept)


def train(
    schedule: Schedule, group: ProcessGroup, modules: nn.ModuleDict, losses: Losses, tell: Callable[[str], None]
) -> None:
    """Runs the schedule to its end, from the last checkpoint if there is one."""
    kept = group.folder / f"{schedule.name}.pt"
    parameters = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    optimiser = Optimiser(modules, schedule)
    first = _resumed(kept, modules, optimiser)
    began, means = time.perf_counter(), dict[str, float]()
    modules.train()
    for step in range(first, schedule.steps):
        with torch.autocast("cpu", torch.bfloat16):
            parts = losses(step)
        sum(parts.values(), torch.zeros(())).backward()
        group.average(parameters)
        nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM)
        optimiser.step(schedule.rate_at(step))
        for name, value in parts.items():
            means[name] = 0.95 * means.get(name, float(value.detach())) + 0.05 * float(value.detach())
        if group.rank == 0 and (step + 1) % LOG_EVERY == 0:
            shown = " ".join(f"{name} {value:.3f}" for name, value in sorted(means.items()))
            tell(f"{schedule.name} step {step + 1}/{schedule.steps} {shown} seconds {time.perf_counter() - began:.0f}")
        if group.rank == 0 and ((step + 1) % CHECKPOINT_EVERY == 0 or step + 1 == schedule.steps):
            _keep(kept, step + 1, modules, optimiser)


def _resumed(kept: Path, modules: nn.ModuleDict, optimiser: Optimiser) -> int:
    if not kept.exists():
        return 0
    found = torch.load(kept, weights_only=True)
    modules.load_state_dict(found["modules"])
    optimiser.restore(found["optimiser"])
    return int(found["step"])


def _keep(kept: Path, step: int, modules: nn.ModuleDict, optimiser: Optimiser) -> None:
    partial = kept.with_suffix(".partial")
    torch.save({"step": step, "modules": modules.state_dict(), "optimiser": optimiser.state()}, partial)
    partial.replace(kept)
