"""The throughput of one replica: from the table rates.toml, corrected by measurements of real runs."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel

from envs.types import Mode
from orchestrator.planning.plan import JUDGE
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import checksums
from sweeps.conditions import Condition
from sweeps.load import SweepError
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec, Protocol

PRIOR_WEIGHT_S = 600.0
"""The table weighs as much as so many observed replica-seconds of work."""
MAX_PICTURES_PER_S = 17.0
"""Limit for a model that is not in the table: an engine prepares pictures in one thread, which is no faster (rates.toml)."""
OBSERVED_FILE = "rates.json"
"""The file in a run folder with the rates that its runs have observed."""
EPISODES, ANSWERS, VERDICTS = "models", "answers", "verdicts"
"""Kinds of work: multiple-choice episodes, open-ended answers, and a judge's verdicts."""
WORK_KINDS = {Protocol.MCQA: EPISODES, Protocol.OEG: ANSWERS}
"""Protocol -> the kind of work whose rate it measures."""


class Rate(NamedTuple):
    """The rate of one replica of a model."""

    episodes: float
    """Episodes, answers or verdicts per second."""
    start: float
    """Seconds from the start command until the replica is ready, with weights and compiled kernels on its node."""
    measured: bool
    """True if earlier runs have played on this kind of GPU; False if reckoned from rates.toml, or from the model's size."""


@dataclass(frozen=True, slots=True)
class ObservedRate:
    """Measurements of one model on one kind of GPU."""

    episodes: int = 0
    """Number of episodes, answers or verdicts."""
    busy: float = 0.0
    """Replica-seconds in which they were played."""

    def __add__(self, later: Self) -> "ObservedRate":
        return ObservedRate(self.episodes + later.episodes, self.busy + later.busy)


class _ObservedFile(BaseModel):
    """The content of ``rates.json``."""

    gpu: str
    models: dict[str, ObservedRate] = {}
    answers: dict[str, ObservedRate] = {}
    verdicts: dict[str, ObservedRate] = {}


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("rates.toml").read_text(encoding="utf-8"))


def gpu_types() -> list[str]:
    return list(_table()["speed"])


def replica_rate(
    model: ModelSpec,
    gpu_type: str,
    kind: str = EPISODES,
    observed: ObservedRate = ObservedRate(),
    pictures: float = 1.0,
) -> Rate:
    """Return the rate of one replica for a kind of work; ``pictures``: mean number in an episode.

    An answer has one picture and some sentences, and of a verdict only the tokens that a judge writes count.
    Raises SweepError for a kind of GPU that is not in the table.
    """
    table, gpus, billions = _table(), model.gpus or 1, model.parameters or 7.0
    if gpu_type.lower() not in table["speed"]:
        raise SweepError(f"no rates are known for GPU type {gpu_type!r}; type one of {', '.join(gpu_types())}")
    speed, row = table["speed"][gpu_type.lower()], table["models"].get(model.name)
    per_token = billions / (table["decoding"]["tokens"] * speed * gpus)
    # up to 3B parameters the thread that prepares pictures is the limit, so a part of a GPU is as fast as a whole one
    share = gpus if gpus < 1 and billions > 3 else 1.0
    by_engine = speed * (row["pictures"] * share if row else min(MAX_PICTURES_PER_S, 150.0 * gpus / billions))
    front_end = table["front_end"].get(model.architecture, math.inf) if model.backend == "vllm" else math.inf
    per_picture = 1 / min(by_engine, front_end)
    seconds = {
        EPISODES: pictures * per_picture,
        ANSWERS: per_picture + table["answers"]["tokens"] * per_token,
        VERDICTS: table["verdicts"]["tokens"] * per_token,
    }[kind]
    corrected = (PRIOR_WEIGHT_S / seconds + observed.episodes) / (PRIOR_WEIGHT_S + observed.busy)
    return Rate(corrected, row["start"] if row else 60.0 + 3.0 * billions, observed.busy > 0)


def mean_pictures(condition: Condition) -> float:
    """Return the mean number of pictures in a multiple-choice episode under a condition (rates.toml names the sources)."""
    mean: Mapping[str, float] = _table()["pictures"]
    if condition.mode is Mode.REFERENCE:
        return mean["reference"]
    if condition.every_frame:
        return mean["every-frame"]
    if condition.every_state:
        return mean["every-state"] * (1 + condition.thoughts)
    kind = "history" if condition.history else "hint" if condition.hint else ZERO_SHOT
    return mean[kind] + condition.shots * mean["example"]


# -- measurements of real runs ----------------------------------------------------------------------------------------------
def write_observed(folder: Path, schedule: Scheduler, gpu_type: str, protocols: Sequence[Protocol]) -> None:
    """Add the rates that a run on GPUs has measured to the folder's file.

    Models give no rate if the sweep plays several protocols, or one in which episodes wait for a judge.
    """
    played_kind = WORK_KINDS.get(protocols[0], "") if len(protocols) == 1 else ""
    measured: dict[str, dict[str, ObservedRate]] = {}
    for name, group in schedule.groups.items():
        kind = VERDICTS if name.startswith(JUDGE) else played_kind
        if group.busy_s > 0 and group.played and kind:
            measured.setdefault(kind, {})[name.removeprefix(JUDGE)] = ObservedRate(group.played, group.busy_s)
    add_observed(folder, gpu_type, measured)


def add_observed(folder: Path, gpu_type: str, fresh: Mapping[str, Mapping[str, ObservedRate]]) -> None:
    """Add measurements (kind of work -> model or judge -> rate) to a folder's file; do nothing if ``gpu_type`` is empty."""
    gpu = gpu_type.partition("-")[0].lower()
    if not gpu:
        return
    content: dict[str, Any] = {"gpu": gpu}
    for kind in (EPISODES, ANSWERS, VERDICTS):
        totals = content[kind] = read_observed([folder], gpu, kind)
        for name, observed in fresh.get(kind, {}).items():
            totals[name] = totals.get(name, ObservedRate()) + observed
    text = _ObservedFile(**content).model_dump_json(indent=2, exclude_defaults=True)
    checksums.write(folder / OBSERVED_FILE, text.encode())


def read_observed(folders: Iterable[Path], gpu_type: str, kind: str = EPISODES) -> dict[str, ObservedRate]:
    """Return model or judge -> sum of what these folders measured on this kind of GPU (empty: any); skip unreadable files."""
    totals: dict[str, ObservedRate] = {}
    for folder in folders:
        try:
            content = _ObservedFile.model_validate_json(checksums.read_verified(folder / OBSERVED_FILE))
        except (OSError, ValueError):
            continue
        measured: dict[str, ObservedRate] = getattr(content, kind) if gpu_type.lower() in ("", content.gpu) else {}
        for name, observed in measured.items():
            totals[name] = totals.get(name, ObservedRate()) + observed
    return totals
