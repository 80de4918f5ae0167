"""The engine ``trl``: single turns by TRL's GRPOTrainer, as in the paper, rewarded with the game's own verdict.

Its checkpoints are the trainer's own; on one CPU a resumed training gives the same weights bit for bit.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copyfile, rmtree

from actors.text.printable import one_line
from orchestrator.learning import run_files
from orchestrator.learning.metrics_log import MetricsLog
from orchestrator.learning.progress import StopRequest, Trained, TrainingProgress, stoppable, to_stderr
from orchestrator.learning.settings import TrainError, Training
from orchestrator.learning.states import Pool, TrainingState

TRAINED_FILES = ("adapter_*", "config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json")
PROCESSOR_FILES = ("tokenizer*", "*processor*", "chat_template*", "special_tokens_map.json", "vocab*", "merges.txt")
"""Files of a checkpoint that hold the model, without optimizer, scheduler and random state."""


def train(
    training: Training, output: Path, pool_states: Sequence[TrainingState], say: Callable[[str], None]
) -> Trained:
    """Train, or go on after the last whole checkpoint, then keep the weights; raises TrainError."""
    settings = training.train
    warnings.filterwarnings("ignore", "TRL currently supports vLLM")  # which samples nothing here
    needed = {"trl": "train", **({"deepspeed": "zero"} if settings.zero else {})}
    for package, extra in needed.items():
        if importlib.util.find_spec(package) is None:
            raise TrainError(
                f"this training needs the package {package}, which is not installed: pip install 'proactive-sweep[{extra}]'"
            )
    if finished(output) < settings.steps:
        if settings.workers > 1:
            from orchestrator.learning import ray_workers

            ray_workers.fit(training, output, say, teach)
        else:
            with stoppable() as stop:
                teach(training, output, pool_states, stop, say)
    done = finished(output)
    if done < settings.steps:
        return Trained(output, None, done)
    path = run_files.publish(output, settings, lambda folder: kept(last_checkpoint(output), folder, settings.full))
    return Trained(output, path, done)


def teach(
    training: Training,
    output: Path,
    pool_states: Sequence[TrainingState],
    stop: StopRequest,
    say: Callable[[str], None],
    tell_line: Callable[[str], None] = to_stderr,
) -> None:
    """Train in one process, alone or as one of several; the first one reports, measures and writes."""
    from orchestrator.learning.trl_trainer import VerdictTrainer, config

    settings, start = training.train, finished(output)
    arguments = config(settings, output)  # before the model is loaded: ZeRO-3 spreads it over the GPUs while it loads
    with MetricsLog(training.sweep, settings, output) as log:
        log.off |= not arguments.should_save
        progress = TrainingProgress(settings, log, say, tell_line)
        if arguments.should_save:
            run_files.forget_rollouts(output, start)
            progress.announce(output, Pool(pool_states, settings.states).counts(), start)
        trainer = VerdictTrainer(training, arguments, pool_states, progress, stop)
        if not start:
            trainer.train()
            return
        checkpoint = last_checkpoint(output)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint))
        except Exception as problem:  # torch, safetensors and pickle raise anything for a damaged file
            if trainer.stepped:
                raise
            reason = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            raise TrainError(
                f"{checkpoint} is damaged ({reason}); remove it, and the same command goes on from the checkpoint before it"
            ) from None


# -- checkpoints -------------------------------------------------------------------------------------------------------
def finished(output: Path) -> int:
    """Steps that the last whole checkpoint has behind it."""
    checkpoints = whole_checkpoints(output)
    return max(checkpoints, default=0)


def last_checkpoint(output: Path) -> Path:
    """The folder of the last whole checkpoint, of which there must be one."""
    checkpoints = whole_checkpoints(output)
    return checkpoints[max(checkpoints)]


def whole_checkpoints(output: Path) -> dict[int, Path]:
    """Steps -> folder; the trainer writes ``trainer_state.json`` last, so one without it was cut off, and is removed."""
    checkpoints = {}
    for folder in output.glob("checkpoint-*"):
        try:
            checkpoints[int(json.loads((folder / "trainer_state.json").read_text("utf-8"))["global_step"])] = folder
        except (OSError, ValueError, KeyError):
            rmtree(folder, ignore_errors=True)
    return checkpoints


def kept(checkpoint: Path, folder: Path, full: bool) -> None:
    """Copy the model of a checkpoint."""
    folder.mkdir()
    for pattern in (*TRAINED_FILES, *(PROCESSOR_FILES if full else ())):
        for file in checkpoint.glob(pattern):
            copyfile(file, folder / file.name)
