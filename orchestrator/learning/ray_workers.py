"""Training in several processes of Ray Train, each with a GPU if the model uses one.

All processes must see the folder of the training, on one machine or a shared file system.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import SEEK_END
from pathlib import Path
from threading import Event, Thread
from typing import Any

from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError, WorkerGroupError
from ray.train.torch import TorchTrainer

from actors.text.printable import one_line
from orchestrator.execution import ray_cluster
from orchestrator.learning.settings import TrainError, Training

LOG = "train.log"
"""The first worker's lines, which the command prints as they are written."""
POLL_S = 1.0
WORKER_CPUS = 1


def fit(training: Training, output: Path, say: Callable[[str], None], train_worker: Callable[..., None]) -> None:
    """Train in ``train.workers`` processes until all steps are complete; Ctrl-C or SIGTERM ends them after a checkpoint.

    ``train_worker`` is ``trl_engine.train_worker``, which each process calls. Raises TrainError with the first failure.
    """
    workers = training.train.workers
    ray_cluster.connect()
    cpus, gpus = ray_cluster.capacity()
    worker_gpus = 1 if training.train.model.gpus else 0
    if (worker_gpus and workers > gpus) or workers * WORKER_CPUS > cpus:
        raise TrainError(
            f"train.workers = {workers} needs {workers * worker_gpus} GPUs and {workers * WORKER_CPUS} CPUs, but the cluster "
            f"has {gpus} and {cpus:g}; set train.workers lower"
        )
    settings = {
        "training": with_absolute_paths(training),
        "output": str(output.resolve()),
        "train_worker": train_worker,
    }
    trainer = TorchTrainer(
        run_worker,
        train_loop_config=settings,
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=bool(worker_gpus),
            resources_per_worker={"CPU": WORKER_CPUS, "GPU": worker_gpus},
        ),
        run_config=RunConfig(
            name="workers", storage_path=str(output.resolve() / "ray"), failure_config=FailureConfig(max_failures=0)
        ),
    )
    try:
        with follow_log(output / LOG, say):
            trainer.fit()
    except TrainingFailedError as problem:
        raise TrainError(f"a worker of the training failed: {failure_reason(problem)}") from None
    except (SystemExit, KeyboardInterrupt):  # raised by Ray Train's handlers after they ended the workers
        return


def with_absolute_paths(training: Training) -> Training:
    """Return the training with absolute paths, because Ray starts workers in a folder of its own."""
    sweep, train = training
    model = train.model.model_copy(update={key: _absolute(getattr(train.model, key)) for key in ("source", "lora")})
    train = train.model_copy(update={"model": model, "data": _absolute(train.data)})
    return Training(sweep.model_copy(update={"data": _absolute(sweep.data)}), train)


def _absolute(path: str) -> str:
    """Return an existing path as absolute; other values, such as a name on the Hub, are unchanged."""
    return str(Path(path).resolve()) if path and Path(path).exists() else path


def run_worker(settings: dict[str, Any]) -> None:
    """Train in this process, one of several."""
    from orchestrator.learning.plan import drawable_states, load_training_states

    training, output = settings["training"], Path(settings["output"])

    def write_line(line: str) -> None:
        with (output / LOG).open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    states = drawable_states(load_training_states(training), training.train)
    settings["train_worker"](training, output, states, Event(), write_line, write_line)


@contextmanager
def follow_log(log: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Print the lines that other processes append to a file during the block."""
    log.touch()
    stop = Event()
    with log.open(encoding="utf-8") as file:
        file.seek(0, SEEK_END)

        def follow() -> None:
            while not stop.wait(POLL_S):
                print_new_lines()

        def print_new_lines() -> None:
            for line in file:
                say(line.rstrip("\n"))

        thread = Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            print_new_lines()


def failure_reason(problem: TrainingFailedError) -> str:
    """Return the last line of the error of the first worker that failed."""
    failures = problem.worker_failures if isinstance(problem, WorkerGroupError) else {}
    message = str(next(iter(failures.values()), problem)).strip()
    return one_line(message.splitlines()[-1]) if message else type(problem).__name__
