"""The engine ``trl``: TRL's GRPOTrainer on single turns, as in the paper, with the game's verdict as the reward.

Checkpoints are the trainer's own. On one CPU, a resumed training gives the same weights bit for bit.
"""

import importlib.util
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copyfile, rmtree
from threading import Event

from actors.text.printable import one_line
from orchestrator.learning import run_files
from orchestrator.learning.progress import (
    MetricsLog,
    TrainingOutcome,
    TrainingProgress,
    print_to_stderr,
    stop_on_signals,
)
from orchestrator.learning.settings import TrainError, Training
from orchestrator.learning.states import Pool, TrainingState

TRAINED_FILES = ("adapter_*", "config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json")
PROCESSOR_FILES = ("tokenizer*", "*processor*", "chat_template*", "special_tokens_map.json", "vocab*", "merges.txt")
"""Files of a checkpoint that belong to the model, not to the optimizer or the trainer."""


def train(
    training: Training, output: Path, states: Sequence[TrainingState], say: Callable[[str], None]
) -> TrainingOutcome:
    """Train, or resume from the last complete checkpoint, then write the model; raises TrainError."""
    settings = training.train
    warnings.filterwarnings("ignore", "TRL currently supports vLLM")  # vLLM is not used here
    extras = {"trl": "train", **({"deepspeed": "zero"} if settings.zero else {})}
    for package, extra in extras.items():
        if importlib.util.find_spec(package) is None:
            raise TrainError(
                f"this training needs the package {package}, which is not installed: pip install 'proactive-sweep[{extra}]'"
            )
    if finished_steps(output) < settings.steps:
        if settings.workers > 1:
            from orchestrator.learning import ray_workers

            ray_workers.fit(training, output, say, train_worker)
        else:
            with stop_on_signals() as stop:
                train_worker(training, output, states, stop, say)
    steps = finished_steps(output)
    if steps < settings.steps:
        return TrainingOutcome(None, steps)
    path = run_files.publish(
        output, settings, lambda folder: copy_model(last_checkpoint(output), folder, settings.full)
    )
    return TrainingOutcome(path, steps)


def train_worker(
    training: Training,
    output: Path,
    states: Sequence[TrainingState],
    stop: Event,
    say: Callable[[str], None],
    print_line: Callable[[str], None] = print_to_stderr,
) -> None:
    """Train in one process, alone or as one of several; only the first one reports and writes."""
    from orchestrator.learning.trl_trainer import VerdictTrainer, grpo_config

    settings, start = training.train, finished_steps(output)
    arguments = grpo_config(settings, output)  # before the model is loaded, so that ZeRO-3 shards it while it loads
    with MetricsLog(training.sweep, settings, output) as log:
        log.off |= not arguments.should_save
        progress = TrainingProgress(settings, log, say, print_line)
        if arguments.should_save:
            run_files.remove_rollouts(output, start)
            progress.announce(output, Pool(states, settings.states).counts(), start)
        trainer = VerdictTrainer(training, arguments, states, progress, stop)
        if not start:
            trainer.train()
            return
        checkpoint = last_checkpoint(output)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint))
        except Exception as problem:  # torch, safetensors and pickle raise anything for a damaged file
            if trainer.checkpoint_loaded:
                raise
            reason = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            raise TrainError(
                f"{checkpoint} is damaged ({reason}); remove it to resume from the checkpoint before it"
            ) from None


# -- checkpoints -------------------------------------------------------------------------------------------------------
def finished_steps(output: Path) -> int:
    """Return the number of steps of the last complete checkpoint."""
    return max(complete_checkpoints(output), default=0)


def last_checkpoint(output: Path) -> Path:
    """Return the folder of the last complete checkpoint; there must be one."""
    checkpoints = complete_checkpoints(output)
    return checkpoints[max(checkpoints)]


def complete_checkpoints(output: Path) -> dict[int, Path]:
    """Return steps -> folder, and remove checkpoints without ``trainer_state.json``, which the trainer writes last."""
    checkpoints = {}
    for folder in output.glob("checkpoint-*"):
        try:
            checkpoints[int(json.loads((folder / "trainer_state.json").read_text("utf-8"))["global_step"])] = folder
        except (OSError, ValueError, KeyError):
            rmtree(folder, ignore_errors=True)
    return checkpoints


def copy_model(checkpoint: Path, folder: Path, full: bool) -> None:
    """Copy the model of a checkpoint into a new folder."""
    folder.mkdir()
    for pattern in (*TRAINED_FILES, *(PROCESSOR_FILES if full else ())):
        for file in checkpoint.glob(pattern):
            copyfile(file, folder / file.name)
