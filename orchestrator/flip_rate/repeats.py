"""The samples and settings of repeats.

Batch size, workers and GPUs are not part of a key, so an episode of a repeat has the key of the original.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import polars as pl

from envs.chance import chance
from envs.errors import RunFolderError
from orchestrator.storage.run_folder import planned_episodes
from sweeps.protocol import OPEN_ENDED_CONDITIONS
from sweeps.sections import Cluster, Tracking
from sweeps.spec import ModelSpec, Selection, Sweep

FOLDER = "flip-rate"
"""Folder in the run folder, with one subfolder per share and seed."""
BATCHES, WORKERS = (1, 8), (2,)
"""Default batch sizes and numbers of workers."""
CACHES_OFF = {"enable_prefix_caching": False, "mm_processor_cache_gb": 0}
"""Options that turn off vLLM's caches of prompts and pictures; other engines have no such caches."""
BATCH_OPTION = {"vllm": "max_num_seqs", "transformers": "batch"}
"""Backend -> option of the engine for its number of concurrent requests."""
DrawnIds = Mapping[bool, Mapping[str, Sequence[int]]]
"""Open-ended or not -> scenario -> ids of the samples to replay."""


@dataclass(frozen=True)
class Setting:
    """What a repeat changes in the run; a setting without a change is a plain repeat."""

    batch: int | None = None
    """Concurrent episodes of a worker and its engine; None: as in the run."""
    workers: int | None = None
    """Replicas of a model; None: as in the run."""
    caches: bool = True
    """False turns vLLM's caches of prompts and pictures off."""

    @property
    def name(self) -> str:
        """Name of its folder: ``repeat``, ``caches-off``, ``batch-1`` or ``workers-2``."""
        if self.batch is None and self.workers is None:
            return "repeat" if self.caches else "caches-off"
        return f"batch-{self.batch}" if self.batch is not None else f"workers-{self.workers}"


PLAIN, WITHOUT_CACHES = Setting(), Setting(caches=False)


def choose_settings(
    sweep: Sweep, batches: Sequence[int], workers: Sequence[int], others: Sequence[Setting] = ()
) -> list[Setting]:
    """Return the ``others``, one setting per batch size and one per number of workers; the defaults if all are empty.

    The defaults leave out numbers of workers if every model always has one worker.
    """
    if not batches and not workers and not others:
        batches, workers = BATCHES, () if all(map(has_one_worker, repeated_models(sweep))) else WORKERS
    return [
        *dict.fromkeys(others),
        *(Setting(batch=count) for count in dict.fromkeys(batches)),
        *(Setting(workers=count) for count in dict.fromkeys(workers)),
    ]


def draw_samples(sweep: Sweep, folder: Path, share: float, seed: int) -> DrawnIds:
    """Draw ``share`` percent of each scenario's samples, at least one, by seed among those stored in every cell.

    A larger share contains the smaller. Raises RunFolderError if no sample is stored in every cell.
    """
    names = [model.name for model in repeated_models(sweep)]
    stored = (
        planned_episodes(folder)
        .filter(pl.col("model").is_in(names))
        .select("cell", "scenario", "protocol", "sample_id")
    )
    rows = stored.with_columns(is_open=pl.col("protocol").is_in(list(OPEN_ENDED_CONDITIONS))).collect()
    repeated: dict[bool, dict[str, list[int]]] = {}
    for (is_open, scenario), part in rows.group_by("is_open", "scenario", maintain_order=True):
        everywhere = part.group_by("sample_id").agg(pl.col("cell").n_unique()).filter(cell=part["cell"].n_unique())
        ids_by_scenario = repeated.setdefault(bool(is_open), {})
        if ids := _take_share(str(scenario), everywhere["sample_id"].to_list(), share, seed):
            ids_by_scenario[str(scenario)] = ids
    if not repeated or not all(repeated.values()):
        raise RunFolderError(f"{folder} has no sample that every cell has played; finish the run first")
    return repeated


def _take_share(scenario: str, ids: Sequence[int], share: float, seed: int) -> list[int]:
    ranked = sorted(ids, key=lambda sample_id: (chance(seed, scenario, sample_id, FOLDER).random(), sample_id))
    return sorted(ranked[: ceil(share / 100 * len(ids) - 1e-9)])


def repeated_models(sweep: Sweep) -> tuple[ModelSpec, ...]:
    """Return all models except people."""
    return tuple(model for model in sweep.models if model.backend != "human")


def repeated_players(sweep: Sweep) -> tuple[ModelSpec, ...]:
    """Return the models that a repeat starts: players and judge."""
    return (*repeated_models(sweep), *([sweep.judge.model] if sweep.judge else []))


def has_one_worker(model: ModelSpec) -> bool:
    """Return True if the scheduler always gives a model one worker: a service, or vLLM on CPUs."""
    return model.backend == "openai" or (model.backend == "vllm" and not model.gpus)


def repeat_sweep(sweep: Sweep, ids: DrawnIds, setting: Setting, output: Path) -> Sweep:
    """Return the sweep that replays these samples into ``output``, with the same keys and without MLflow."""
    scenarios = tuple(name for name in sweep.scenarios if all(name in by_scenario for by_scenario in ids.values()))
    models = tuple(_with_caches(_with_batch(model, setting.batch), setting) for model in repeated_models(sweep))
    open_ended = sweep.open_ended.model_copy(update={"selection": _selection(sweep.open_ended.selection, ids, True)})
    return sweep.model_copy(update={
        "output": str(output), "models": models, "scenarios": scenarios, "tracking": Tracking(uri="none"), "measures": (),
        "selection": _selection(sweep.selection, ids, False), "open_ended": open_ended, "precision": None,
        "cluster": _with_workers(sweep.cluster, setting.workers, models),
    })  # fmt: skip


def describe_left_out(sweep: Sweep, ids: DrawnIds, settings: Sequence[Setting]) -> Iterator[str]:
    """Yield a sentence per part of the run that is not replayed, or not changed by a setting."""
    for setting in settings:
        for model in repeated_models(sweep):
            if setting.workers is not None and has_one_worker(model):
                yield f"{setting.name}: {model.name} always has one worker and is replayed as in the run"
            elif not setting.caches and model.backend != "vllm":
                yield f"{setting.name}: {model.name} has no caches that this command controls and is replayed as in the run"
    for model in sweep.models:
        if model.backend == "human":
            yield f"{model.name} is a person and is not replayed"
    for name in sweep.scenarios:
        if not all(name in by_scenario for by_scenario in ids.values()):
            yield f"{name} has no sample that every cell has played"


def _selection(selection: Selection, ids: DrawnIds, is_open: bool) -> Selection:
    chosen = {name: list(sample_ids) for name, sample_ids in ids.get(is_open, {}).items()}
    return Selection(filtered=selection.filtered, ids=chosen) if chosen else selection


def _with_batch(model: ModelSpec, batch: int | None) -> ModelSpec:
    if batch is None or model.backend == "builtin":
        return model
    option = BATCH_OPTION.get(model.backend)
    options = {**model.options, option: batch} if option else model.options
    return model.model_copy(update={"in_flight": batch, "options": options})


def _with_caches(model: ModelSpec, setting: Setting) -> ModelSpec:
    """Return the model, without vLLM's caches if the setting turns them off."""
    if setting.caches or model.backend != "vllm":
        return model
    return model.model_copy(update={"options": {**model.options, **CACHES_OFF}})


def _with_workers(cluster: Cluster, workers: int | None, models: Sequence[ModelSpec]) -> Cluster:
    """Return the cluster with ``workers`` replicas of a model without GPUs, and GPUs for as many of the largest model."""
    if workers is None:
        return cluster
    gpus = ceil(workers * max((model.gpus for model in models), default=0)) or cluster.gpus
    return cluster.model_copy(update={"workers": workers, "gpus": gpus})
