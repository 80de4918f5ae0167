"""The plan of a training, without its model: states, steps, and an estimate of its hours."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from actors.engine.image_loader import picture_bounds
from orchestrator.datasets.train_split import ROWS, SplitRow, is_split, read_rows
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.states import Pool, SplitState, TrainingState, load_states, refuse_test_pictures
from orchestrator.scheduling.forecast.throughput import billions, gpu_speed
from orchestrator.storage import job_paths


def load_split_states(folder: Path, samples: int | None, seed: int) -> list[SplitState]:
    """Load the rows of a folder, or ``samples`` of them drawn by seed; raises BadData."""
    rows: Sequence[SplitRow] = list(read_rows(folder))
    if samples is not None and samples < len(rows):
        rows = Random(f"{seed}/learning/rows").sample(rows, samples)
    return [SplitState(row) for row in rows]


PAPER_ROLLOUTS = 8
PAPER_HOURS = {"qwen2.5-vl-3b": (4 * 8, 4 * 10), "llava-next-mistral-7b": (16 * 8, 16 * 10)}
"""GPU-hours on A100 of one pass over the train split: 8 to 10 hours on 4 and on 16 GPUs (paper, appendix C)."""
PAPER_BILLIONS = {"qwen2.5-vl-3b": 3.0, "llava-next-mistral-7b": 7.0}
EMBEDDED_SECONDS = 0.005
"""Core-seconds per reply of the embedded model: the demo's 15,360 replies take 60 to 90 s (docs/learning.md)."""


def load_training_states(training: Training) -> list[TrainingState]:
    """Load the states to learn from; raise TrainError if one of them shows a test picture."""
    sweep, train = training
    folder = Path(train.data)
    job_paths.check_data_path(train.data)
    states: list[TrainingState] = []
    if is_split(folder):
        states += load_split_states(folder, train.samples, train.seed)
    else:
        states += load_states(folder, train.scenarios, train.samples, train.seed, picture_bounds(train.model))
    refuse_test_pictures(states, train.scenarios, sweep, train.data)
    return states


def drawable_states(states: Sequence[TrainingState], train: Train) -> list[TrainingState]:
    """Return the states of the kinds that have a weight in ``train.states``."""
    weights = train.states.model_dump()
    return [state for state in states if weights[state.kind]]


def with_steps(train: Train, state_count: int) -> Train:
    """Return the settings; without steps and cloning steps, set the steps to one pass over the states (paper: one epoch)."""
    if train.steps or train.exploration.clone:
        return train
    return train.model_copy(update={"steps": max(1, state_count // train.groups)})


def state_order(state_count: int, train: Train) -> list[int]:
    """Return the index of the state of each group, step by step; each pass visits every state once, in a new order."""
    group_count, indices = train.steps * train.groups, list[int]()
    while len(indices) < group_count:
        rng = Random(f"{train.seed}/learning/pass/{len(indices) // state_count}")
        indices += rng.sample(range(state_count), state_count)
    return indices[:group_count]


def describe_work(train: Train) -> str:
    """Describe the steps and replies of a training."""
    cloning = f"{train.exploration.clone:,} cloning steps, " if train.exploration.clone else ""
    return (
        f"{cloning}{train.steps:,} steps of {train.groups:,} states x {train.rollouts} replies "
        f"({train.steps * train.batch:,} replies in all)"
    )


def plan_lines(training: Training, gpu_type: str, gpus: int | None = None) -> Sequence[str]:
    """Return the lines of `plan` about a training; a forecast (``gpus``) without data assumes the published train split."""
    data = training.train.data
    if gpus is not None and not Path(data).exists():
        state_count, summary = ROWS, f"{ROWS:,} states of the published train split ({data} does not exist)"
    else:
        states = load_training_states(training)
        counts = Pool(states, training.train.states).counts()
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        state_count, summary = len(drawable_states(states, training.train)), f"{len(states):,} states ({kinds})"
    train = with_steps(training.train, state_count)
    hours = describe_hours(train, gpu_type, gpus)
    return (f"training of {train.model.name}: {summary}, {describe_work(train)}{hours and ', '}{hours}",)


def describe_hours(train: Train, gpu_type: str, gpus: int | None = None) -> str:
    """Describe the estimated hours of a training; empty if unknown. Raises SweepError for an unknown GPU type."""
    replies = train.steps * train.batch + train.exploration.clone * train.groups
    if train.model.source == "builtin:embedded":
        return f"about {replies * EMBEDDED_SECONDS / 3600:.2f} CPU-hours"
    if not train.model.gpus:
        return ""
    low, high = (hours * replies for hours in _gpu_hours_per_reply(train, gpu_type))
    total = f"{low:,.1f} to {high:,.1f} GPU-hours of {gpu_type.upper()}"
    elapsed = f", {low / gpus:,.1f} to {high / gpus:,.1f} h on {gpus}" if gpus else ""
    return f"{total}{elapsed} (estimated from the paper's 8 to 10 hours on A100)"


def _gpu_hours_per_reply(train: Train, gpu_type: str) -> tuple[float, float]:
    """Return a lower and an upper bound: the paper's hours of its two models, scaled by parameters for other models."""
    per_hour = gpu_speed("a100") / gpu_speed(gpu_type) / (ROWS * PAPER_ROLLOUTS)
    if hours := PAPER_HOURS.get(train.model.name):
        return hours[0] * per_hour, hours[1] * per_hour
    scale = billions(train.model) * per_hour
    lows, highs = zip(
        *[(low / PAPER_BILLIONS[n], high / PAPER_BILLIONS[n]) for n, (low, high) in PAPER_HOURS.items()], strict=True
    )
    return min(lows) * scale, max(highs) * scale
