"""Hours that a training takes, reckoned: on GPUs from those that the paper states, on a CPU from the demo's own.

A wrong figure costs nobody a result; real hours stand in the lines of progress.
"""

from __future__ import annotations

from actors.embedded import EMBEDDED
from orchestrator.datasets.train_split import ROWS
from orchestrator.learning.settings import Train
from orchestrator.scheduling.forecast.throughput import gpu_speed

PAPER_ROLLOUTS = 8
PAPER_HOURS = {"qwen2.5-vl-3b": (4 * 8, 4 * 10), "llava-next-mistral-7b": (16 * 8, 16 * 10)}
"""GPU-hours on A100 of one pass over the train split: 8 to 10 hours on 4 and on 16 (paper, appendix C)."""
PAPER_BILLIONS = {"qwen2.5-vl-3b": 3.0, "llava-next-mistral-7b": 7.0}
EMBEDDED_SECONDS = 0.005
"""Core-seconds a reply of the embedded model: the demo's 15,360 replies take 60 to 90 (docs/learning.md)."""
HOUR = 3600.0


def told(train: Train, gpu_type: str, gpus: int | None = None) -> str:
    """The hours of a training, in words; empty where nothing is known. Raises SweepError for an unknown kind of GPU."""
    replies = train.steps * train.batch + train.exploration.clone * train.groups
    if train.model.source == EMBEDDED:
        return f"about {replies * EMBEDDED_SECONDS / HOUR:.2f} CPU-hours"
    if not train.model.gpus:
        return ""
    low, high = (hours * replies for hours in gpu_hours_a_reply(train, gpu_type))
    total = f"{low:,.1f} to {high:,.1f} GPU-hours of {gpu_type.upper()}"
    shared = f", {low / gpus:,.1f} to {high / gpus:,.1f} h on {gpus}" if gpus else ""
    return f"{total}{shared} (reckoned from the paper's 8 to 10 hours on A100)"


def gpu_hours_a_reply(train: Train, gpu_type: str) -> tuple[float, float]:
    """From the least to the most: the paper's own where it trained the model, else by parameters between its two models."""
    a100 = gpu_speed("a100") / gpu_speed(gpu_type) / (ROWS * PAPER_ROLLOUTS)
    if hours := PAPER_HOURS.get(train.model.name):
        return hours[0] * a100, hours[1] * a100
    billions = train.model.parameters or 7.0  # as the forecast takes it where nobody says
    a_billion = [(low / PAPER_BILLIONS[name], high / PAPER_BILLIONS[name]) for name, (low, high) in PAPER_HOURS.items()]
    return min(low for low, _ in a_billion) * billions * a100, max(high for _, high in a_billion) * billions * a100
