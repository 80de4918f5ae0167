"""The training loop: its processes keep equal weights, because they start equal and average their gradients.

A step depends on (seed, step) alone. A checkpoint is written every ``CHECKPOINT_EVERY`` steps; an interrupted run continues
from it.
"""

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
"""Maximum norm of the gradient; a larger gradient is scaled down to it."""
Losses = Callable[[int], dict[str, Tensor]]
"""Step -> named losses; their sum is minimized."""


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


class LoggedRun:
    """A run whose log lies in its working folder."""

    work: Path

    def log(self, line: str) -> None:
        """Write a line to the log and to the screen."""
        stamped = f"{time.strftime('%H:%M:%S')} {line}"
        print(stamped, flush=True)
        with (self.work / "training.log").open("a", encoding="utf-8") as file:
            file.write(stamped + "\n")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes that train together; they find each other through a file, without a port."""

    rank: int
    size: int
    folder: Path

    def gather(self) -> None:
        """Join the group."""
        if self.size > 1:
            dist.init_process_group("gloo", f"file://{self.folder}/rendezvous", rank=self.rank, world_size=self.size)

    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by the mean over the group; a missing gradient counts as zero."""
        trained = list(parameters)
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        flat = nn.utils.parameters_to_vector(gradients)
        if self.size > 1:
            dist.all_reduce(flat)
        parts = (flat / self.size).split([parameter.numel() for parameter in trained])
        for parameter, part in zip(trained, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def leave(self) -> None:
        """Leave the group."""
        if self.size > 1:
            dist.destroy_process_group()


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

    def state(self) -> list[dict[str, object]]:
        """Return the state for a checkpoint."""
        return [part.state_dict() for part in self.parts]

    def restore(self, state: list[dict[str, object]]) -> None:
        """Continue from a checkpoint."""
        for part, part_state in zip(self.parts, state, strict=True):
            part.load_state_dict(part_state)


def train(
    schedule: Schedule, group: ProcessGroup, modules: nn.Module, losses: Losses, log: Callable[[str], None]
) -> None:
    """Run the schedule to its end, from the last checkpoint if there is one."""
    checkpoint = group.folder / f"{schedule.name}.pt"
    parameters = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    optimizer = MuonAdamW(modules, schedule)
    first = _resume(checkpoint, modules, optimizer)
    start, means = time.perf_counter(), dict[str, float]()
    modules.train()
    for step in range(first, schedule.steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=schedule.half):
            parts = losses(step)
        sum(parts.values(), torch.zeros(())).backward()
        group.average(parameters)
        nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM)
        optimizer.step(schedule.rate_at(step))
        for name, value in parts.items():
            means[name] = 0.95 * means.get(name, float(value.detach())) + 0.05 * float(value.detach())
        if group.rank == 0 and (step + 1) % min(LOG_EVERY, schedule.save_every) == 0:
            losses_text = " ".join(f"{name} {value:.3f}" for name, value in sorted(means.items()))
            seconds = time.perf_counter() - start
            log(f"{schedule.name} step {step + 1}/{schedule.steps} {losses_text} seconds {seconds:.0f}")
        if group.rank == 0 and ((step + 1) % schedule.save_every == 0 or step + 1 == schedule.steps):
            _save(checkpoint, step + 1, modules, optimizer)


def _resume(checkpoint: Path, modules: nn.Module, optimizer: MuonAdamW) -> int:
    if not checkpoint.exists():
        return 0
    state = torch.load(checkpoint, weights_only=True)
    modules.load_state_dict(state["modules"])
    optimizer.restore(state["optimiser"])
    return int(state["step"])


def _save(checkpoint: Path, step: int, modules: nn.Module, optimizer: MuonAdamW) -> None:
    partial = checkpoint.with_suffix(".partial")
    torch.save({"step": step, "modules": modules.state_dict(), "optimiser": optimizer.state()}, partial)
    partial.replace(checkpoint)
