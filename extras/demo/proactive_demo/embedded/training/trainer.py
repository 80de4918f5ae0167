"""Trains either model in stages: the loop, its checkpoints and its log, and the options that both commands take.

A step depends on (seed, step) alone. A checkpoint is written every ``save_every`` steps; an interrupted run continues from it.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CHECKPOINT_EVERY = 250
"""Steps between two checkpoints."""
LOG_EVERY = 50
"""Steps between two lines of the log."""
MAX_GRADIENT_NORM = 4.0
"""Maximum norm of the gradient; a larger gradient is scaled down to it."""
Losses = Callable[[int, int], dict[str, Tensor]]
"""(step, part of its batch) -> named losses; their sum is minimized."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps, learning rate and weight decay of a stage."""

    name: str
    steps: int
    rate: float
    warm: int = 100
    decay: float = 0.05
    """Weight decay."""
    save_every: int = CHECKPOINT_EVERY
    """Steps between two checkpoints."""
    half: bool = True
    """Compute in bfloat16 where that is safe."""

    def rate_at(self, step: int) -> float:
        """Return the rate: linear warm-up, then a cosine down to 2%."""
        if step < self.warm:
            return self.rate * (step + 1) / self.warm
        return self.rate * (0.02 + 0.98 * 0.5 * (1 + cos(pi * (step - self.warm) / max(1, self.steps - self.warm))))


class MuonAdamW:
    """Muon for the matrices of the transformer layers, AdamW for everything else; here it learns twice as fast as AdamW alone."""

    def __init__(self, modules: nn.Module, schedule: Schedule) -> None:
        inner, outer = list[nn.Parameter](), list[nn.Parameter]()
        for name, parameter in modules.named_parameters():
            if parameter.requires_grad:
                is_inner = parameter.ndim == 2 and (".layers." in name or "projection" in name)
                (inner if is_inner else outer).append(parameter)
        rate, decay = schedule.rate, schedule.decay
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(outer, lr=rate, betas=(0.9, 0.98), weight_decay=decay)
        ]
        if inner:
            muon = torch.optim.Muon(inner, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
            self.parts.insert(0, muon)

    def step(self, rate: float) -> None:
        """Take one step at ``rate`` and drop the gradients."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)


@dataclass
class TrainingRun:
    """A training in stages; every field but the two folders changes the model."""

    work: Path
    out: Path
    seed: int
    laps: int
    stages: Mapping[str, Schedule]

    def log(self, line: str) -> None:
        """Write a line to the log and to the screen."""
        stamped = f"{time.strftime('%H:%M:%S')} {line}"
        print(stamped, flush=True)
        with (self.work / "training.log").open("a", encoding="utf-8") as file:
            file.write(stamped + "\n")

    def state(self, stage: str) -> dict[str, Any]:
        """Return the last checkpoint of a stage."""
        state: dict[str, Any] = torch.load(self.work / f"{self.stages[stage].name}.pt", weights_only=True)
        return state

    def train(self, stage: str, modules: nn.Module, losses: Losses, parts: int = 1) -> None:
        """Run a stage to its end, from its last checkpoint if there is one; the gradients of a batch's parts are averaged."""
        schedule = self.stages[stage]
        checkpoint = self.work / f"{schedule.name}.pt"
        parameters = [parameter for parameter in modules.parameters() if parameter.requires_grad]
        optimizer = MuonAdamW(modules, schedule)
        first = _resume(checkpoint, modules, optimizer)
        start, means = time.perf_counter(), dict[str, float]()
        modules.train()
        for step in range(first, schedule.steps):
            for part in range(parts):
                with torch.autocast("cpu", torch.bfloat16, enabled=schedule.half):
                    named = losses(step, part)
                (sum(named.values(), torch.zeros(())) / parts).backward()
                for name, value in named.items():
                    means[name] = 0.95 * means.get(name, float(value.detach())) + 0.05 * float(value.detach())
            nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM)
            optimizer.step(schedule.rate_at(step))
            if (step + 1) % min(LOG_EVERY, schedule.save_every) == 0:
                losses_text = " ".join(f"{name} {value:.3f}" for name, value in sorted(means.items()))
                seconds = time.perf_counter() - start
                self.log(f"{schedule.name} step {step + 1}/{schedule.steps} {losses_text} seconds {seconds:.0f}")
            if (step + 1) % schedule.save_every == 0 or step + 1 == schedule.steps:
                _save(checkpoint, step + 1, modules, optimizer)


def _resume(checkpoint: Path, modules: nn.Module, optimizer: MuonAdamW) -> int:
    if not checkpoint.exists():
        return 0
    state = torch.load(checkpoint, weights_only=True)
    modules.load_state_dict(state["modules"])
    for part, part_state in zip(optimizer.parts, state["optimiser"], strict=True):
        part.load_state_dict(part_state)
    return int(state["step"])


def _save(checkpoint: Path, step: int, modules: nn.Module, optimizer: MuonAdamW) -> None:
    partial = checkpoint.with_suffix(".partial")
    optimizer_state = [part.state_dict() for part in optimizer.parts]
    torch.save({"step": step, "modules": modules.state_dict(), "optimiser": optimizer_state}, partial)
    partial.replace(checkpoint)


def add_options(parser: ArgumentParser, out: str, work: str, laps: int, stages: Mapping[str, Schedule]) -> None:
    """Add the options that the commands of both models take."""
    parser.add_argument("--out", type=Path, default=Path(out), help="where what was trained is saved")
    parser.add_argument("--work", type=Path, default=Path(work), help="pictures, checkpoints and log; resumable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laps", type=int, default=laps, help="seeds of samples to draw per scenario")
    for name, schedule in stages.items():
        parser.add_argument(f"--{name}-steps", type=int, default=schedule.steps)
    parts = (*stages, "save")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="parts of the run")


def run_fields(options: Namespace, stages: Mapping[str, Schedule]) -> dict[str, Any]:
    """Return the fields of a run, its folders created, from the options of ``add_options``."""
    work: Path = options.work.resolve()
    for folder in (work, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: replace(stages[name], steps=getattr(options, f"{name}_steps")) for name in stages}
    return {"work": work, "out": options.out, "seed": options.seed, "laps": options.laps, "stages": chosen}
