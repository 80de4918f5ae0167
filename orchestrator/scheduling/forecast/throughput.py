"""The throughput of one replica: from the table rates.toml, corrected by measurements of real runs."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from envs.types import Mode
from orchestrator.planning.plan import JUDGE
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import checksums
from sweeps.conditions import CONDITIONS, Condition
from sweeps.load import SweepError
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Judge, ModelSpec, Protocol

PRIOR_WEIGHT_S = 600.0
"""The table weighs as much as so many observed replica-seconds of work."""
MAX_PICTURES_PER_S = 17.0
"""Limit for a model that is not in the table: an engine prepares pictures in one thread, which is no faster (rates.toml)."""
OBSERVED_FILE = "rates.json"
"""The file in a run folder with the rates that its runs have observed."""
MAX_STARTS = 32
"""Starts of a model that the file keeps."""
EPISODES, ANSWERS, VERDICTS = "models", "answers", "verdicts"
"""Kinds of work: multiple-choice episodes, open-ended answers, and a judge's verdicts."""
WORK_KINDS: Mapping[Protocol | None, str] = {Protocol.MCQA: EPISODES, Protocol.OEG: ANSWERS}
"""Protocol -> the kind of work whose rate it measures."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of one replica of a model."""

    episodes: float
    """Episodes, answers or verdicts per second."""
    start: float
    """Seconds from the start command until the replica is ready, with weights and compiled kernels on its node."""
    source: str
    """``reckoned`` (from rates.toml), ``guessed`` (from the model's size alone) or ``measured``."""


@dataclass(frozen=True, slots=True)
class ObservedRate:
    """Measurements of one model on one kind of GPU."""

    episodes: int = 0
    """Number of episodes, answers or verdicts."""
    busy: float = 0.0
    """Replica-seconds in which they were played."""
    starts: tuple[float, ...] = ()
    """Seconds of each start."""

    def __add__(self, later: Self) -> "ObservedRate":
        starts = (self.starts + later.starts)[-MAX_STARTS:]
        return ObservedRate(self.episodes + later.episodes, self.busy + later.busy, starts)


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


def gpu_speed(gpu_type: str) -> float:
    """Return the speed of one GPU relative to an H200; raises SweepError for an unknown type."""
    speed = _table()["speed"].get(gpu_type.lower())
    if speed is None:
        raise SweepError(f"no rates are known for GPU type {gpu_type!r}; type one of {', '.join(gpu_types())}")
    return float(speed)


def episode_rate(
    model: ModelSpec, gpu_type: str, observed: ObservedRate = ObservedRate(), pictures: float | None = None
) -> Rate:
    """Return the episodes/s of one replica on this kind of GPU; ``pictures``: mean per episode (default: as in zero-shot).

    Raises SweepError for a kind of GPU that is not in the table.
    """
    rate = _cap_by_front_end(_picture_rate(model, gpu_type), model)
    pictures = pictures or mean_pictures(CONDITIONS[ZERO_SHOT])
    return _correct(replace(rate, episodes=rate.episodes / pictures), observed)


def mean_pictures(condition: Condition) -> float:
    """Return the mean number of pictures in a multiple-choice episode under a condition (rates.toml names the sources)."""
    mean = _table()["pictures"]
    if condition.mode is Mode.REFERENCE:
        return float(mean["reference"])
    if condition.every_frame:
        return float(mean["every-frame"])
    if condition.every_state:
        return float(mean["every-state"]) * (1 + condition.thoughts)
    kind = "history" if condition.history else "hint" if condition.hint else ZERO_SHOT
    return float(mean[kind]) + condition.shots * float(mean["example"])


def answer_rate(model: ModelSpec, gpu_type: str, observed: ObservedRate = ObservedRate()) -> Rate:
    """Return open-ended answers per second of one replica; an answer has one picture and some sentences."""
    picture = _picture_rate(model, gpu_type)
    seconds = 1 / picture.episodes + _table()["answers"]["tokens"] / _decoding(model, gpu_type)
    return _correct(_cap_by_front_end(replace(picture, episodes=1 / seconds), model), observed)


def verdict_rate(judge: Judge, gpu_type: str, observed: ObservedRate = ObservedRate()) -> Rate:
    """Return verdicts per second of one replica of a judge; only the tokens that it writes count."""
    verdicts = _decoding(judge.model, gpu_type) / _table()["verdicts"]["tokens"]
    return _correct(Rate(verdicts, _start_seconds(judge.model), "reckoned"), observed)


def length_assumptions() -> str:
    """Return the lengths that the rates of answers and verdicts assume, in words."""
    answer, verdict = (_table()[kind]["tokens"] for kind in ("answers", "verdicts"))
    return f"assumed length where no run measured it: {answer} tokens per open-ended answer, {verdict:,} per verdict"


def combine_rates(parts: Sequence[tuple[int, Rate]]) -> Rate:
    """Return the rate of mixed work; ``parts`` has a count and a rate per kind of work. Without work, the first rate."""
    parts = [part for part in parts if part[0]] or [(1, parts[0][1])]
    seconds = sum(count / rate.episodes for count, rate in parts)
    main, count = max(parts, key=lambda part: part[0])[1], sum(count for count, _ in parts)
    return replace(main, episodes=count / seconds)


def _decoding(model: ModelSpec, gpu_type: str) -> float:
    """Return the tokens/s that one replica writes when its batch is full."""
    return float(_table()["decoding"]["tokens"]) * gpu_speed(gpu_type) * (model.gpus or 1) / _billions(model)


def _correct(rate: Rate, observed: ObservedRate) -> Rate:
    if observed.busy <= 0:
        return rate
    episodes = (rate.episodes * PRIOR_WEIGHT_S + observed.episodes) / (PRIOR_WEIGHT_S + observed.busy)
    start = (rate.start + sum(observed.starts)) / (1 + len(observed.starts))
    return Rate(episodes, start, "measured")


def _picture_rate(model: ModelSpec, gpu_type: str) -> Rate:
    """Return pictures/s by the table; for a model that is not in it, 150 * GPUs / billions of parameters."""
    speed, row = gpu_speed(gpu_type), _table()["models"].get(model.name)
    if row:
        # up to 3B parameters the thread that prepares pictures is the limit, so a part of a GPU is as fast as a whole one
        share = model.gpus if 0 < model.gpus < 1 and _billions(model) > 3 else 1.0
        return Rate(row["pictures"] * speed * share, row["start"], "reckoned")
    pictures = min(MAX_PICTURES_PER_S, 150.0 * (model.gpus or 1) / _billions(model))
    return Rate(pictures * speed, _start_seconds(model), "guessed")


def _cap_by_front_end(rate: Rate, model: ModelSpec) -> Rate:
    """Return the rate, limited to the requests/s that one front end sustains."""
    limit = _table()["front_end"].get(model.architecture, math.inf) if model.backend == "vllm" else math.inf
    return replace(rate, episodes=min(rate.episodes, limit))


def _start_seconds(model: ModelSpec) -> float:
    return 60.0 + 3.0 * _billions(model)


def _billions(model: ModelSpec) -> float:
    """Return a model's parameters in billions; 7 if its entry does not state them."""
    return model.parameters or 7.0


# -- measurements of real runs ----------------------------------------------------------------------------------------------
def write_observed(folder: Path, schedule: Scheduler, gpu_type: str, protocols: Sequence[Protocol]) -> None:
    """Add the rates that a run on GPUs has measured to the folder's file.

    Models give no rate if the sweep plays several protocols, or one in which episodes wait for a judge.
    """
    played_kind = WORK_KINDS.get(protocols[0] if len(protocols) == 1 else None, "")
    measured: dict[str, dict[str, ObservedRate]] = {}
    for name, group in schedule.groups.items():
        kind = VERDICTS if name.startswith(JUDGE) else played_kind
        if group.busy_s > 0 and group.played and kind:
            observed = ObservedRate(group.played, group.busy_s, tuple(group.start_times))
            measured.setdefault(kind, {})[name.removeprefix(JUDGE)] = observed
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
    """Return model or judge -> sum of the measurements of these folders on this kind of GPU; skip unreadable files."""
    totals: dict[str, ObservedRate] = {}
    for folder in folders:
        try:
            content = _ObservedFile.model_validate_json(checksums.read_verified(folder / OBSERVED_FILE))
        except (OSError, ValueError):
            continue
        measured: dict[str, ObservedRate] = getattr(content, kind) if content.gpu == gpu_type.lower() else {}
        for name, observed in measured.items():
            totals[name] = totals.get(name, ObservedRate()) + observed
    return totals
