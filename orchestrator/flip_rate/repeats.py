"""Which samples of a run are played again, and under which settings: sweeps whose keys are those of the run.

Batch size, workers and GPUs are in no key, so an episode of a repeat has the key of the one that it repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import polars as pl

from envs.chance import chance
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import planned_episodes
from sweeps.protocol import OPEN_ENDED_CONDITIONS
from sweeps.running import Cluster, Tracking
from sweeps.spec import ModelSpec, Selection, Sweep

FOLDER = "flip-rate"
"""In the run folder; below it one folder a share and seed."""
BATCHES, WORKERS = (1, 8), (2,)
"""What is tried where nobody says otherwise."""
BATCH_OPTION = {"vllm": "max_num_seqs", "transformers": "batch"}
"""Backend -> the engine's own bound on what it answers at once."""
Drawn = Mapping[bool, Mapping[str, Sequence[int]]]
"""Open-ended or not -> scenario -> ids of the samples that are played again."""


@dataclass(frozen=True)
class Setting:
    """What a repeat does otherwise than the run."""

    batch: int | None = None
    """Episodes that a worker plays, and its engine answers, at once; None: as in the run."""
    workers: int | None = None
    """Replicas of a model; None: as in the run."""

    @property
    def name(self) -> str:
        """Its folder's name, ``batch-1`` or ``workers-2``."""
        return f"batch-{self.batch}" if self.batch is not None else f"workers-{self.workers}"


def settings(sweep: Sweep, batches: Sequence[int], workers: Sequence[int]) -> list[Setting]:
    """One setting a batch size and one a number of workers, each changed alone; the defaults where both are empty.

    Of workers there is no default where every model has one whatever is asked.
    """
    if not batches and not workers:
        batches, workers = BATCHES, () if all(map(has_one_worker, repeated_models(sweep))) else WORKERS
    return [
        *(Setting(batch=count) for count in dict.fromkeys(batches)),
        *(Setting(workers=one) for one in dict.fromkeys(workers)),
    ]


def place(folder: Path, share: float, seed: int) -> Path:
    """Where the repeats of a share lie: each share and seed has a folder of its own, so that none mixes with another."""
    return folder / FOLDER / f"share-{share:g}-seed-{seed}"


def drawn(sweep: Sweep, folder: Path, share: float, seed: int) -> Drawn:
    """``share`` percent of the samples of each scenario, at least one, drawn by seed among those that every cell has stored.

    A larger share contains the smaller. Raises RunFolderError where no sample is stored in every cell.
    """
    names = [model.name for model in repeated_models(sweep)]
    stored = (
        planned_episodes(folder)
        .filter(pl.col("model").is_in(names))
        .select("cell", "scenario", "protocol", "sample_id")
    )
    rows = stored.with_columns(words=pl.col("protocol").is_in(list(OPEN_ENDED_CONDITIONS))).collect()
    ids_by_kind: dict[bool, dict[str, list[int]]] = {}
    for (words, scenario), part in rows.group_by("words", "scenario", maintain_order=True):
        everywhere = part.group_by("sample_id").agg(pl.col("cell").n_unique()).filter(cell=part["cell"].n_unique())
        ids_by_kind.setdefault(bool(words), {})[str(scenario)] = _some(
            str(scenario), everywhere["sample_id"].to_list(), share, seed
        )
    repeated = {
        words: {name: ids for name, ids in by_scenario.items() if ids} for words, by_scenario in ids_by_kind.items()
    }
    if not repeated or not all(repeated.values()):
        raise RunFolderError(f"{folder} has no sample that every cell has played yet; finish the run first")
    return repeated


def _some(scenario: str, ids: Sequence[int], share: float, seed: int) -> list[int]:
    ranked = sorted(ids, key=lambda sample_id: (chance(seed, scenario, sample_id, FOLDER).random(), sample_id))
    return sorted(ranked[: ceil(share / 100 * len(ids) - 1e-9)])


def repeated_models(sweep: Sweep) -> tuple[ModelSpec, ...]:
    """All models but people, who do not answer twice."""
    return tuple(model for model in sweep.models if model.backend != "human")


def has_one_worker(model: ModelSpec) -> bool:
    """Return True if the scheduler always gives a model one worker: a service paces one caller, vLLM takes all CPUs."""
    return model.backend == "openai" or (model.backend == "vllm" and not model.gpus)


def repeat(sweep: Sweep, ids: Drawn, setting: Setting, output: Path) -> Sweep:
    """The sweep that plays these samples under a setting into ``output``: with the same keys, without MLflow."""
    scenarios = tuple(name for name in sweep.scenarios if all(name in by_scenario for by_scenario in ids.values()))
    models = tuple(_batched(model, setting.batch) for model in repeated_models(sweep))
    openly = sweep.open_ended.model_copy(update={"selection": _selection(sweep.open_ended.selection, ids, True)})
    return sweep.model_copy(update={
        "output": str(output), "models": models, "scenarios": scenarios, "tracking": Tracking(uri="none"), "measures": (),
        "selection": _selection(sweep.selection, ids, False), "open_ended": openly, "precision": None,
        "cluster": _clustered(sweep.cluster, setting.workers, models),
    })  # fmt: skip


def left_out(sweep: Sweep, ids: Drawn, settings: Sequence[Setting]) -> Iterator[str]:
    """What of the run is not played again, or not otherwise, one sentence each."""
    for setting in settings:
        for model in repeated_models(sweep):
            if setting.workers is not None and has_one_worker(model):
                yield f"{setting.name}: {model.name} has one worker whatever is asked, and is played as in the run"
            elif setting.batch is not None and model.batch:
                yield f"{setting.name}: {model.name} is asked by a Batch API, whose batches are not ours: played as in the run"
    for model in sweep.models:
        if model.backend == "human":
            yield f"{model.name} is a person and is not asked again"
    for name in sweep.scenarios:
        if not all(name in by_scenario for by_scenario in ids.values()):
            yield f"{name} has no sample that every cell has played"


def _selection(before: Selection, ids: Drawn, words: bool) -> Selection:
    chosen = {name: list(sample_ids) for name, sample_ids in ids.get(words, {}).items()}
    return Selection(filtered=before.filtered, ids=chosen) if chosen else before


def _batched(model: ModelSpec, batch: int | None) -> ModelSpec:
    if batch is None or model.backend == "builtin" or model.batch:
        return model
    option = BATCH_OPTION.get(model.backend)
    options = {**model.options, option: batch} if option else model.options
    return model.model_copy(update={"in_flight": batch, "options": options})


def _clustered(cluster: Cluster, workers: int | None, models: Sequence[ModelSpec]) -> Cluster:
    """So many replicas of a model without GPU, and GPUs for as many of the largest one."""
    if workers is None:
        return cluster
    gpus = ceil(workers * max((model.gpus for model in models), default=0)) or cluster.gpus
    return cluster.model_copy(update={"workers": workers, "gpus": gpus})
