"""One training in several processes of Ray Train, with a GPU each where the model takes one: where the sweeps run.

All of them must see the training's folder: this machine, or a file system that the nodes share.
"""

from __future__ import annotations

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
"""The first worker's output, line by line; the command shows it as it grows."""
LOOK_S = 1.0
"""Seconds between two looks at it."""
WORKER_CPUS = 1


def fit(training: Training, output: Path, say: Callable[[str], None], teach: Callable[..., None]) -> None:
    """Train in ``workers`` processes until all steps are done, or Ctrl-C or SIGTERM ends them: the last checkpoint stays.

    ``teach`` is ``trl_engine.teach``, which each worker calls. Raises TrainError with the first worker's failure.
    """
    workers = training.train.workers
    ray_cluster.connect()
    cpus, gpus = ray_cluster.capacity()
    each = 1 if training.train.model.gpus else 0
    if (each and workers > gpus) or workers * WORKER_CPUS > cpus:
        raise TrainError(
            f"train.workers = {workers} takes {workers * each} GPUs and {workers * WORKER_CPUS} CPUs, and the cluster has "
            f"{gpus} and {cpus:g}; set train.workers lower"
        )
    trainer = TorchTrainer(
        work,
        train_loop_config={"training": from_anywhere(training), "output": str(output.resolve()), "teach": teach},
        scaling_config=ScalingConfig(
            num_workers=workers, use_gpu=bool(each), resources_per_worker={"CPU": WORKER_CPUS, "GPU": each}
        ),
        run_config=RunConfig(
            name="workers", storage_path=str(output.resolve() / "ray"), failure_config=FailureConfig(max_failures=0)
        ),
    )
    try:
        with shown(output / LOG, say):
            trainer.fit()
    except TrainingFailedError as problem:
        raise TrainError(f"a worker of the training failed: {reason(problem)}") from None
    except (SystemExit, KeyboardInterrupt):  # Ray Train's own handlers have ended the workers, and leave
        return


def from_anywhere(training: Training) -> Training:
    """The same with every path of a file or folder that is here written in full: a worker starts in a folder of Ray's."""
    sweep, train = training
    model = train.model.model_copy(update={key: _whole(getattr(train.model, key)) for key in ("source", "lora")})
    train = train.model_copy(update={"model": model, "data": _whole(train.data)})
    return Training(sweep.model_copy(update={"data": _whole(sweep.data)}), train)


def _whole(path: str) -> str:
    return str(Path(path).resolve()) if path and Path(path).exists() else path


def work(settings: dict[str, Any]) -> None:
    """Run one worker."""
    from orchestrator.learning.plan import drawable, states
    from orchestrator.learning.progress import StopRequest

    training, output = settings["training"], Path(settings["output"])

    def tell(line: str) -> None:
        with (output / LOG).open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    state_pool = drawable(states(training), training.train)
    settings["teach"](training, output, state_pool, StopRequest(), tell, tell)


@contextmanager
def shown(log: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Show what is added to a file meanwhile."""
    log.touch()
    over = Event()
    with log.open(encoding="utf-8") as file:
        file.seek(0, SEEK_END)

        def follow() -> None:
            while not over.wait(LOOK_S):
                tell()

        def tell() -> None:
            for line in file:
                say(line.rstrip("\n"))

        thread = Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            tell()


def reason(problem: TrainingFailedError) -> str:
    """The last line of what the first worker to fail raised."""
    failures = problem.worker_failures if isinstance(problem, WorkerGroupError) else {}
    message = str(next(iter(failures.values()), problem)).strip()
    return one_line(message.splitlines()[-1]) if message else type(problem).__name__
