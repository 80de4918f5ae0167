"""Plans a training without loading a model: its states, its steps, and one line on both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from actors.engine.image_loader import picture_bounds
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
    job_paths.check_data_path(train.data)
    loaded: list[TrainingState] = []
    if is_split(folder):
        loaded += states_of_split(folder, train.samples, train.seed)
    else:
        loaded += states_of(folder, train.scenarios, train.samples, train.seed, picture_bounds(train.model))
    refuse_test_pictures(loaded, train.scenarios, sweep, train.data)
    return loaded


def drawable(states: Sequence[TrainingState], train: Train) -> list[TrainingState]:
    """The states of those kinds that ``train.states`` draws at all."""
    weights = train.states.model_dump()
    return [state for state in states if weights[state.kind]]


def counted(train: Train, number: int) -> Train:
    """The settings with their number of steps: one pass over so many states where the file says none (paper: one epoch)."""
    cloned_only = train.exploration.clone and not train.steps
    if train.steps or cloned_only:
        return train
    return train.model_copy(update={"steps": max(1, number // train.groups)})


def order(number: int, train: Train) -> list[int]:
    """Return the index of the state of each group, step by step; every pass has each state once, in its own order."""
    needed, places = train.steps * train.groups, list[int]()
    while len(places) < needed:
        chance = Random(f"{train.seed}/learning/pass/{len(places) // number}")
        places += chance.sample(range(number), number)
    return places[:needed]


def described(train: Train) -> str:
    """Steps and replies, in words."""
    cloned = f"{train.exploration.clone:,} cloning steps, " if train.exploration.clone else ""
    return (
        f"{cloned}{train.steps:,} steps of {train.groups:,} states x {train.rollouts} replies "
        f"({train.steps * train.batch:,} replies in all)"
    )


def plan_lines(training: Training, gpu_type: str, gpus: int | None = None) -> Sequence[str]:
    """Return the lines of `plan` on a training: states, steps and hours; reads data but no model. Raises BadData or SweepError.

    A forecast (``gpus``) goes without the data: the published train split is counted then.
    """
    absent = gpus is not None and not Path(training.train.data).exists()
    if absent:
        number, summary = ROWS, f"{ROWS:,} states of the published train split ({training.train.data} is not there)"
    else:
        loaded = states(training)
        counts = Pool(loaded, training.train.states).counts()
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
        number, summary = len(drawable(loaded, training.train)), f"{len(loaded):,} states ({kinds})"
    train = counted(training.train, number)
    hours = cost.told(train, gpu_type, gpus)
    return (f"training of {train.model.name}: {summary}, {described(train)}{hours and ', '}{hours}",)
