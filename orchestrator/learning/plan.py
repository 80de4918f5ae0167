"""What a training will do, before any model is loaded: its states, its steps, and one line that says both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.image_loader import fit
from orchestrator.datasets.train_split import ROWS, is_split
from orchestrator.learning import cost
from orchestrator.learning.settings import Train, Training
from orchestrator.learning.split_states import states_of_split
from orchestrator.learning.states import Pool, TrainingState, refuse_test_pictures, states_of
from orchestrator.storage import job_paths


def states(training: Training) -> list[TrainingState]:
    """The states to learn from; raises BadData or TrainError, also where one of them shows a test picture."""
    sweep, train = training
    folder = Path(train.data)
    job_paths.reachable(train.data)
    found: list[TrainingState] = []
    if is_split(folder):
        found += states_of_split(folder, train.samples, train.seed)
    else:
        found += states_of(folder, train.scenarios, train.samples, train.seed, fit(train.model))
    refuse_test_pictures(found, train.scenarios, sweep, train.data)
    return found


def drawable(found: Sequence[TrainingState], train: Train) -> list[TrainingState]:
    """The states of those kinds that ``train.states`` draws at all."""
    weights = train.states.model_dump()
    return [state for state in found if weights[state.kind]]


def counted(train: Train, number: int) -> Train:
    """The settings with their number of steps: one pass over so many states where the file says none (paper: one epoch)."""
    cloned_only = train.exploration.clone and not train.steps
    if train.steps or cloned_only:
        return train
    return train.model_copy(update={"steps": max(1, number // train.groups)})


def described(train: Train) -> str:
    """Steps and replies, in words."""
    cloned = f"{train.exploration.clone:,} cloning steps, " if train.exploration.clone else ""
    return (
        f"{cloned}{train.steps:,} steps of {train.groups:,} states x {train.rollouts} replies "
        f"({train.steps * train.batch:,} replies in all)"
    )


def plan_lines(training: Training, gpu_type: str, gpus: int | None = None) -> Sequence[str]:
    """What `plan` says of a training: states, steps and hours; the data are read, no model is. Raises BadData or SweepError.

    A forecast (``gpus``) goes without the data: the published train split is counted then.
    """
    absent = gpus is not None and not Path(training.train.data).exists()
    if absent:
        number, there = ROWS, f"{ROWS:,} states of the published train split ({training.train.data} is not there)"
    else:
        found = states(training)
        counts = Pool(found, training.train.states).counts()
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
        number, there = len(drawable(found, training.train)), f"{len(found):,} states ({kinds})"
    train = counted(training.train, number)
    hours = cost.told(train, gpu_type, gpus)
    return (f"training of {train.model.name}: {there}, {described(train)}{hours and ', '}{hours}",)
