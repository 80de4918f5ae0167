"""What a sweep will take is reckoned from a small table of rates, and every real run's own figures weigh in.

An estimate is never part of a key and changes no answer: a wrong one costs time alone, and the schedule corrects it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from envs.samples import kept
from orchestrator.placement.schedule import Demand, Schedule
from orchestrator.plan import group
from orchestrator.storage.durable import write
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

TRUST = 600.0
"""Seconds of replicas seen at work that weigh as much as the table."""
OPEN_ENDED = 100
"""Samples a scenario in the paper's open-ended subset."""
FASTEST = 15.0
"""Episodes/s of the smallest model: the CPU decodes pictures no faster."""
OBSERVED = "rates.json"
"""File of a run folder that holds what the run saw."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One replica of a model."""

    episodes: float
    """Episodes/s."""
    start: float
    """Seconds until it is ready."""
    source: str
    """``reckoned`` (rates.toml), ``guessed`` (from its size alone) or ``measured``."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What runs saw of one model on one kind of GPU."""

    episodes: int = 0
    busy: float = 0.0
    """Replica-seconds in which they were played."""
    starts: tuple[float, ...] = ()
    """Seconds each start took."""


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("rates.toml").read_text(encoding="utf-8"))


def gpu_types() -> list[str]:
    """The kinds of GPU that the table knows."""
    return list(_table()["speed"])


def rate(model: ModelSpec, gpu_type: str, seen: Seen = Seen()) -> Rate:
    """What one replica of a model does on this kind of GPU; raises SweepError for a kind that the table does not know."""
    speed = _table()["speed"].get(gpu_type.lower())
    if speed is None:
        raise SweepError(f"no rates are known for GPU type {gpu_type!r}; type one of {', '.join(gpu_types())}")
    row = _table()["models"].get(model.name)
    known = Rate(row["rate"] * speed, row["start"], "reckoned") if row else _by_size(model, speed)
    if seen.busy <= 0:
        return known
    episodes = (known.episodes * TRUST + seen.episodes) / (TRUST + seen.busy)
    start = (known.start + sum(seen.starts)) / (1 + len(seen.starts))
    return Rate(episodes, start, "measured")


def _by_size(model: ModelSpec, speed: float) -> Rate:
    """A model that the table does not have: 50 episodes/s a GPU for a billion parameters."""
    billions = model.parameters or 7.0
    return Rate(min(FASTEST, 50.0 * max(1, model.gpus) / billions) * speed, 60.0 + 3.0 * billions, "guessed")


def episodes(sweep: Sweep) -> dict[str, int]:
    """Model -> episodes of a sweep over the published benchmark, reckoned from the kept ids: needs no data folder."""
    counts: dict[str, int] = {}
    for cell in sweep.cells():
        counts[cell.model.name] = counts.get(cell.model.name, 0) + _samples(sweep.selects(cell.protocol), cell.scenario)
    return counts


def _samples(pick: Selection, scenario: str) -> int:
    if scenario in pick.ids:
        return len(pick.ids[scenario])
    whole = len(kept()[scenario])
    count = min(whole, OPEN_ENDED) if pick.subset == "open-ended" else whole
    return count if pick.limit is None else min(count, pick.limit)


def demand(model: ModelSpec, known: Rate, replicas: int = 64) -> Demand:
    """What the schedule is told of a model on GPUs."""
    return Demand(
        cpus=0,
        gpus=model.gpus,
        replicas=replicas,
        at_once=model.in_flight,
        rate=known.episodes,
        start=known.start,
    )


def estimated(demands: Mapping[str, Demand], sweep: Sweep, gpu_type: str) -> dict[str, Demand]:
    """The demands with rates, as far as the table knows the GPU: what runs beside this one's folder saw weighs in.

    The table is of multiple choice; a sweep of long answers alone learns its rates as it goes.
    """
    if Protocol.MCQA not in sweep.protocols:
        return dict(demands)
    kind = gpu_type.partition("-")[0].lower()
    if kind not in gpu_types():
        return dict(demands)
    seen = observed(neighbours(sweep), kind)
    known = {model.name: rate(model, kind, seen.get(model.name, Seen())) for model in apart(sweep)[0]}
    return {
        name: replace(one, rate=known[name].episodes, start=known[name].start) if name in known else one
        for name, one in demands.items()
    }


def neighbours(sweep: Sweep) -> list[Path]:
    """The run folders beside the sweep's own, and that one, as far as they hold what a run saw."""
    return sorted(path.parent for path in Path(sweep.output).parent.glob(f"*/{OBSERVED}"))


def owed(counts: Mapping[str, int], names: Iterable[str]) -> dict[str, range]:
    """Model -> ordinals, numbered through."""
    found, first = {}, 0
    for name in names:
        found[name] = range(first, first + counts[name])
        first += counts[name]
    return found


# -- what real runs saw -------------------------------------------------------------------------------------------------
def write_observed(folder: Path, schedule: Schedule, gpu_type: str) -> None:
    """Keep what a run on GPUs saw of its models in its folder, added to what earlier attempts there saw."""
    kind = gpu_type.partition("-")[0].lower()
    if not kind:
        return
    seen = observed([folder], kind)
    for name, crew in schedule.groups.items():
        if crew.busy > 0 and crew.played:
            old = seen.get(name, Seen())
            starts = old.starts + tuple(crew.starts)
            seen[name] = Seen(old.episodes + crew.played, old.busy + crew.busy, starts[-32:])
    rows = {
        name: {"episodes": row.episodes, "busy": round(row.busy, 3), "starts": [round(s, 3) for s in row.starts]}
        for name, row in sorted(seen.items())
    }
    text = json.dumps({"gpu": kind, "models": rows}, indent=2)
    write(folder / OBSERVED, text.encode())


def observed(folders: Iterable[Path], gpu_type: str) -> dict[str, Seen]:
    """Model -> what the runs in these folders saw on this kind of GPU; a folder without readable figures adds nothing."""
    found: dict[str, Seen] = {}
    for folder in folders:
        for name, row in _rows(folder / OBSERVED, gpu_type).items():
            old = found.get(name, Seen())
            found[name] = Seen(old.episodes + row.episodes, old.busy + row.busy, old.starts + row.starts)
    return found


def _rows(path: Path, gpu_type: str) -> dict[str, Seen]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["gpu"] != gpu_type.lower():
            return {}
        return {
            str(name): Seen(int(row["episodes"]), float(row["busy"]), tuple(map(float, row["starts"])))
            for name, row in content["models"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def apart(sweep: Sweep) -> tuple[Sequence[ModelSpec], Sequence[ModelSpec]]:
    """The models that take GPUs, and the others: services and policies, whose pace no GPU sets."""
    models = {group(model): model for model in sweep.models}.values()
    return [m for m in models if m.gpus], [m for m in models if not m.gpus]
