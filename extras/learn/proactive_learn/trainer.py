"""A training from start to end: states, steps, checkpoints, metrics, and the trained model.

Checkpoints are the trainer's own. On one CPU, a resumed training gives the same weights bit for bit. ``accelerate launch`` may
start several processes, which share each step; the first one holds the folder and reports.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import NamedTuple

from actors.text.printable import one_line
from orchestrator.storage import lock
from orchestrator.storage.disk import disk_errors, durable_path
from proactive_learn import run_files
from proactive_learn.progress import TrainingProgress, stop_on_signals
from proactive_learn.settings import Train, TrainError, Training
from proactive_learn.states import TrainingState, count_kinds, load_training_states


class TrainingOutcome(NamedTuple):
    """The result of one process of a training."""

    model: Path | None
    """``model.toml``; None if the training was interrupted, and in every process but the first."""
    steps: int
    """Completed steps, those of earlier attempts included."""


def resolve_steps(training: Training, state_count: int) -> Training:
    """Return the training; without steps, set them to one pass over the states (paper: one epoch)."""
    train = training.train
    steps = train.steps or max(1, state_count // train.groups)
    return training._replace(train=train.model_copy(update={"steps": steps}))


def describe_work(states: Sequence[TrainingState], train: Train) -> str:
    """Return the numbers of states, steps and replies of a training."""
    return (
        f"{len(states):,} states ({count_kinds(states)}), {train.steps:,} steps of {train.groups:,} states x "
        f"{train.rollouts} replies ({train.steps * train.batch:,} replies in all)"
    )


def describe(training: Training) -> str:
    """Describe a training before it starts; raises TrainError or BadData."""
    states = load_training_states(training)
    work = describe_work(states, resolve_steps(training, len(states)).train)
    return f"training of {training.train.model.name}: {work}"


def train(training: Training, output: Path, say: Callable[[str], None] = print) -> TrainingOutcome:
    """Train, or resume from the last complete checkpoint, then write the model; raises TrainError, BadData or RunFolderError."""
    durable_path(str(output))
    is_first = os.environ.get("RANK", "0") == "0"
    with disk_errors(output), ExitStack() as stack:
        if is_first:
            stack.enter_context(lock.hold(output))
        states = load_training_states(training)
        training = resolve_steps(training, len(states))
        settings = training.train
        if is_first:
            run_files.claim(output, settings)
        if run_files.finished_steps(output) < settings.steps:
            stop = stack.enter_context(stop_on_signals())
            _train_steps(training, output, states, stop, say)
        steps = run_files.finished_steps(output)
        if steps < settings.steps or not is_first:
            return TrainingOutcome(None, steps)
        return TrainingOutcome(run_files.publish(output, settings), steps)


def _train_steps(
    training: Training, output: Path, states: Sequence[TrainingState], stop: Event, say: Callable[[str], None]
) -> None:
    """Train the remaining steps in this process, alone or as one of several."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TRL currently supports vLLM")  # vLLM is not used here
        from proactive_learn.verdict_trainer import VerdictTrainer, grpo_config
    settings, start = training.train, run_files.finished_steps(output)
    arguments = grpo_config(settings, output, int(os.environ.get("WORLD_SIZE", "1")))
    if arguments.should_save:
        run_files.remove_rollouts(output, start)
        say(f"{output}: {describe_work(states, settings)}")
        if start:
            say(f"{start:,} steps are already complete")
    with TrainingProgress(training, output, say, off=not arguments.should_save) as progress:
        trainer = VerdictTrainer(training, arguments, states, progress, stop)
        if not start:
            trainer.train()
            return
        checkpoint = run_files.complete_checkpoints(output)[start]
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint))
        except Exception as problem:  # torch, safetensors and pickle raise anything for a damaged file
            if trainer.checkpoint_loaded or isinstance(problem, TrainError):
                raise
            reason = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            raise TrainError(
                f"{checkpoint} cannot be resumed from ({reason}); if it is damaged, remove it to resume from the one before it"
            ) from None
