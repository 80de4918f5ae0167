"""Throughput of one replica: from the table rates.toml, corrected by what real runs measured.

A rate is never part of a key and changes no answer: a wrong one costs time alone, and the schedule corrects it.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from envs.types import Mode
from orchestrator.planning.plan import JUDGE
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import checksums
from sweeps.conditions import CONDITIONS, Condition
from sweeps.load import SweepError
from sweeps.spec import Judge, ModelSpec, Protocol

PRIOR_WEIGHT_S = 600.0
"""Seconds of replicas seen at work that weigh as much as the table."""
MAX_PICTURES_PER_S = 17.0
"""Of a model that is not in the table: the one thread of an engine that prepares pictures is no faster (rates.toml)."""
OBSERVED = "rates.json"
"""File of a run folder that holds what the run saw."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One replica of a model."""

    episodes: float
    """Episodes, answers or verdicts a second."""
    start: float
    """Seconds until it is ready."""
    source: str
    """``reckoned`` (rates.toml), ``guessed`` (from its size alone) or ``measured``."""
    front_end: bool = False
    """Whether the GPU would be faster than the front end that prepares its requests."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What runs saw of one model on one kind of GPU."""

    episodes: int = 0
    busy: float = 0.0
    """Replica-seconds in which they were played."""
    starts: tuple[float, ...] = ()
    """Seconds each start took."""
    front_end: float = 0.0
    """Requests/s that its front end sustained in the latest trial; 0 where none was made."""

    def __add__(self, later: Observed) -> Observed:
        front_end = later.front_end or self.front_end
        return Observed(self.episodes + later.episodes, self.busy + later.busy, self.starts + later.starts, front_end)


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("rates.toml").read_text(encoding="utf-8"))


def gpu_types() -> list[str]:
    """The kinds of GPU that the table knows."""
    return list(_table()["speed"])


def rate(model: ModelSpec, gpu_type: str, seen: Observed = Observed(), pictures: float | None = None) -> Rate:
    """What one replica of a model plays on this kind of GPU, an episode showing so many pictures (default: zero-shot's).

    Raises SweepError for a kind of GPU that the table does not know.
    """
    one = _prepared(_pictures_rate(model, gpu_type), model, seen)
    shown = pictures or pictures_shown(CONDITIONS["zero-shot"])
    return _weighed(replace(one, episodes=one.episodes / shown), seen)


def pictures_shown(condition: Condition) -> float:
    """Pictures of an average episode of multiple choice under a condition (rates.toml names the sources)."""
    mean = _table()["pictures"]
    if condition.mode is Mode.REFERENCE:
        return float(mean["reference"])
    if condition.every_frame:
        return float(mean["every-frame"])
    kind = "history" if condition.history else "hint" if condition.hint else "zero-shot"
    return float(mean[kind]) + condition.shots * float(mean["example"])


def answer_rate(model: ModelSpec, gpu_type: str, seen: Observed = Observed()) -> Rate:
    """Open-ended answers: one picture and some sentences each."""
    picture = _pictures_rate(model, gpu_type)
    seconds = 1 / picture.episodes + _table()["answers"]["tokens"] / _decoding(model, gpu_type)
    return _weighed(_prepared(Rate(1 / seconds, picture.start, picture.source), model, seen), seen)


def verdict_rate(judge: Judge, gpu_type: str, seen: Observed = Observed()) -> Rate:
    """Verdicts of one replica of a judge; reading an answer takes next to nothing beside its thinking."""
    pace = _decoding(judge.model, gpu_type) / _table()["verdicts"]["tokens"]
    return _weighed(Rate(pace, _start(judge.model), "reckoned"), seen)


def lengths() -> str:
    """What the open-ended rates assume, for a person."""
    table = _table()
    answer, verdict = table["answers"]["tokens"], table["verdicts"]["tokens"]
    return (
        f"an open-ended answer is taken to have {answer} tokens and a verdict {verdict:,}, where no run measured them"
    )


def mixed(parts: Sequence[tuple[int, Rate]]) -> Rate:
    """The rate of work of several kinds, (how many, at which rate) each; that of the first where there is nothing to do."""
    some = [part for part in parts if part[0]] or [(1, parts[0][1])]
    seconds = sum(count / one.episodes for count, one in some)
    most = max(some, key=lambda part: part[0])[1]
    return Rate(
        sum(count for count, _ in some) / seconds, most.start, most.source, any(one.front_end for _, one in some)
    )


def speed_of(gpu_type: str) -> float:
    """Of one GPU, beside an H200."""
    speed = _table()["speed"].get(gpu_type.lower())
    if speed is None:
        raise SweepError(f"no rates are known for GPU type {gpu_type!r}; type one of {', '.join(gpu_types())}")
    return float(speed)


def _decoding(model: ModelSpec, gpu_type: str) -> float:
    """Tokens/s that one replica writes with a full batch."""
    pace = float(_table()["decoding"]["tokens"]) * speed_of(gpu_type) * (model.gpus or 1)
    return pace / _billions(model)


def _weighed(known: Rate, seen: Observed) -> Rate:
    """What was reckoned, corrected by what was seen."""
    if seen.busy <= 0:
        return known
    episodes = (known.episodes * PRIOR_WEIGHT_S + seen.episodes) / (PRIOR_WEIGHT_S + seen.busy)
    start = (known.start + sum(seen.starts)) / (1 + len(seen.starts))
    return Rate(episodes, start, "measured", known.front_end)


def _pictures_rate(model: ModelSpec, gpu_type: str) -> Rate:
    """Pictures/s by the table; a model it does not have: 150 a GPU for a billion parameters."""
    speed, row = speed_of(gpu_type), _table()["models"].get(model.name)
    if row:
        return Rate(row["pictures"] * speed * _part(model), row["start"], "reckoned")
    pictures = min(MAX_PICTURES_PER_S, 150.0 * (model.gpus or 1) / _billions(model))
    return Rate(pictures * speed, _start(model), "guessed")


def _prepared(one: Rate, model: ModelSpec, seen: Observed) -> Rate:
    """The rate, of requests/s, but no more than the front end sustains: by a trial, else by the table."""
    known = _table()["front_end"].get(model.architecture, math.inf) if model.backend == "vllm" else math.inf
    most = seen.front_end or known
    return replace(one, episodes=most, front_end=True) if one.episodes > most else one


def _part(model: ModelSpec) -> float:
    """How much slower a part of a GPU is than the whole: up to 3B not at all, the thread that prepares pictures sets the pace."""
    return model.gpus if 0 < model.gpus < 1 and _billions(model) > 3 else 1.0


def _start(model: ModelSpec) -> float:
    """Seconds that a replica takes to load, by its size."""
    return 60.0 + 3.0 * _billions(model)


def _billions(model: ModelSpec) -> float:
    """Its parameters; 7 where nobody says."""
    return model.parameters or 7.0


# -- what real runs saw -------------------------------------------------------------------------------------------------
EPISODES, ANSWERS, VERDICTS = "models", "answers", "verdicts"
"""Kinds of work: of multiple choice, open-ended, and a judge's."""
KIND: Mapping[Protocol | None, str] = {Protocol.MCQA: EPISODES, Protocol.OEG: ANSWERS}
"""Protocol -> the kind of work whose rate it tells."""


def write_observed(folder: Path, schedule: Scheduler, gpu_type: str, protocols: Sequence[Protocol]) -> None:
    """Keep what a run on GPUs saw in its folder, added to what earlier attempts there saw.

    Models that played several protocols tell no rate of any, nor do those whose episodes wait for a judge.
    """
    only = protocols[0] if len(protocols) == 1 else None
    played = KIND.get(only, "")
    seen: dict[str, dict[str, Observed]] = {}
    for name, replicas in schedule.groups.items():
        kind = VERDICTS if name.startswith(JUDGE) else played
        if replicas.busy > 0 and replicas.played and kind:
            seen.setdefault(kind, {})[name.removeprefix(JUDGE)] = Observed(
                replicas.played, replicas.busy, tuple(replicas.starts)
            )
    add_observed(folder, gpu_type, seen)


def add_observed(folder: Path, gpu_type: str, fresh: Mapping[str, Mapping[str, Observed]]) -> None:
    """Add what was seen (kind of work -> model or judge -> figures) to a folder's; nothing where no kind of GPU is known."""
    gpu = gpu_type.partition("-")[0].lower()
    if not gpu:
        return
    content: dict[str, dict[str, Any]] = {}
    for kind in (EPISODES, ANSWERS, VERDICTS):
        seen = observed([folder], gpu, kind)
        for name, new in fresh.get(kind, {}).items():
            seen[name] = seen.get(name, Observed()) + new
        content[kind] = {name: _row(row) for name, row in sorted(seen.items())}
    checksums.write(folder / OBSERVED, json.dumps({"gpu": gpu, **content}, indent=2).encode())


def _row(seen: Observed) -> dict[str, Any]:
    """The figures as the file has them, with the last 32 starts."""
    starts = [round(seconds, 3) for seconds in seen.starts[-32:]]
    row = {"episodes": seen.episodes, "busy": round(seen.busy, 3), "starts": starts}
    return {**row, "front_end": round(seen.front_end, 3)} if seen.front_end else row


def observed(folders: Iterable[Path], gpu_type: str, kind: str = EPISODES) -> dict[str, Observed]:
    """Model or judge -> what these folders' runs saw on this kind of GPU; one without readable figures adds nothing."""
    found: dict[str, Observed] = {}
    for folder in folders:
        for name, row in _rows(folder / OBSERVED, gpu_type, kind).items():
            found[name] = found.get(name, Observed()) + row
    return found


def _rows(path: Path, gpu_type: str, kind: str) -> dict[str, Observed]:
    try:
        content = json.loads(checksums.content(path))
        if content["gpu"] != gpu_type.lower():
            return {}
        return {
            str(name): Observed(
                int(row["episodes"]),
                float(row["busy"]),
                tuple(map(float, row["starts"])),
                float(row.get("front_end", 0)),
            )
            for name, row in content.get(kind, {}).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
