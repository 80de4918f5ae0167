"""The rate of one replica of each group: from the table rates.toml, corrected by measurements of real runs."""

import math
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, FiniteFloat, RootModel, model_validator

from envs.types import Mode
from orchestrator.planning.plan import JUDGE, Plan, judge_group, worker_group
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage import checksums
from sweeps.conditions import Condition
from sweeps.load import SweepError
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Cell, ModelSpec, Protocol, Sweep

TABLE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("rates.toml").read_text(encoding="utf-8"))
SPEEDS: Mapping[str, float] = TABLE["speed"]
"""Kind of GPU -> its speed beside an H200."""
PRIOR_WEIGHT_S = 600.0
"""The table weighs as much as so many observed replica-seconds of work."""
MAX_PICTURES_PER_S = 17.0
"""Limit for a model that is not in the table, on any GPU: an engine prepares pictures in one thread (rates.toml)."""
OBSERVED_FILE = "rates.json"
"""The file in a run folder with the rates that its runs have observed."""
EPISODES, ANSWERS, VERDICTS = "models", "answers", "verdicts"
KINDS = (EPISODES, ANSWERS, VERDICTS)
"""Kinds of work: multiple-choice episodes, open-ended answers, and a judge's verdicts."""
WORK_KINDS = {Protocol.MCQA: EPISODES, Protocol.OEG: ANSWERS}
"""Protocol -> the kind of work whose rate it measures."""
Cells = Sequence[tuple[Cell, int]]
"""Cells, each with a number of episodes or open-ended answers."""


class Rate(NamedTuple):
    """The rate of one replica of a model."""

    episodes: float
    """Episodes, answers or verdicts per second."""
    start: float
    """Seconds from the start command until the replica is ready, with weights and compiled kernels on its node."""
    measured: bool
    """True if earlier runs have played on this kind of GPU; False if computed from rates.toml, or from the model's size."""


@dataclass(frozen=True, slots=True)
class ObservedRate:
    """Measurements of one model on one kind of GPU."""

    episodes: Annotated[int, Field(ge=0, lt=1 << 53)] = 0
    """Number of episodes, answers or verdicts."""
    busy: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    """Replica-seconds in which they were played."""
    pictures: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    """Expected number of pictures in the episodes; 0 for answers and verdicts, and if unknown (files of 0.2.0)."""

    def __add__(self, later: Self) -> "ObservedRate":
        episodes, known = self.episodes + later.episodes, [rate for rate in (self, later) if rate.pictures]
        mean = sum(rate.pictures for rate in known) / max(1, sum(rate.episodes for rate in known))
        return ObservedRate(episodes, self.busy + later.busy, mean * episodes)


class _ObservedFile(RootModel[dict[str, dict[str, dict[str, ObservedRate]]]]):
    """The content of ``rates.json``: kind of GPU -> kind of work -> model or judge -> measurements."""

    @model_validator(mode="before")
    @classmethod
    def _convert_older(cls, content: Any) -> Any:
        """Return the kinds of work of a file of 0.2.0, which measured one kind of GPU, below that kind."""
        if not isinstance(content, dict) or "gpu" not in content:
            return content
        return {str(content["gpu"]): {kind: content[kind] for kind in KINDS if kind in content}}


def gpu_kind(accelerator: str) -> str:
    """Return the kind of a GPU without its memory: ``h200`` for ``H200-141GB``."""
    return accelerator.partition("-")[0].lower()


def replica_rate(
    model: ModelSpec,
    gpu_type: str,
    kind: str = EPISODES,
    observed: ObservedRate = ObservedRate(),
    pictures: float = 1.0,
) -> Rate:
    """Return the rate of one replica for a kind of work; ``pictures``: mean number in an episode.

    An answer costs one picture and its tokens, a verdict only its tokens. Raises SweepError for a GPU that is not in the table.
    """
    if (speed := SPEEDS.get(gpu_type.lower())) is None:
        raise SweepError(f"no rates are known for GPU type {gpu_type!r}; type one of {', '.join(SPEEDS)}")
    billions, row = model.parameters or 7.0, TABLE["models"].get(model.name)
    per_picture = 1 / _pictures_per_s(model, speed)
    per_token = billions / (TABLE["decoding"]["tokens"] * speed * (model.gpus or 1))
    seconds = {
        EPISODES: pictures * per_picture,
        ANSWERS: per_picture + TABLE["answers"]["tokens"] * per_token,
        VERDICTS: TABLE["verdicts"]["tokens"] * per_token,
    }[kind]
    expected = observed.pictures * per_picture or observed.episodes * seconds  # of the observed work
    rate = (PRIOR_WEIGHT_S + expected) / (PRIOR_WEIGHT_S + observed.busy) / seconds
    return Rate(rate, row["start"] if row else 60.0 + 3.0 * billions, observed.busy > 0)


def _pictures_per_s(model: ModelSpec, speed: float) -> float:
    """Return the pictures/s of one replica on GPUs of this speed (1 for an H200), by the table or by the model's size."""
    gpus, billions = model.gpus or 1, model.parameters or 7.0
    front_end: float = TABLE["front_end"].get(model.architecture, math.inf) if model.backend == "vllm" else math.inf
    if (row := TABLE["models"].get(model.name)) is None:
        return min(front_end, MAX_PICTURES_PER_S, speed * 150.0 * gpus / billions)
    # up to 3B parameters the thread that prepares pictures is the limit, so a part of a GPU is as fast as a whole one
    share = gpus if gpus < 1 and billions > 3 else 1.0
    return min(front_end, speed * float(row["pictures"]) * share)


def mean_pictures(condition: Condition) -> float:
    """Return the mean number of pictures in a multiple-choice episode under a condition (rates.toml names the sources)."""
    mean: Mapping[str, float] = TABLE["pictures"]
    if condition.mode is Mode.REFERENCE:
        return mean["reference"]
    if condition.every_frame:
        return mean["every-frame"]
    if condition.every_state:
        return mean["every-state"] * (1 + condition.thoughts)
    kind = "history" if condition.history else "hint" if condition.hint else ZERO_SHOT
    return mean[kind] + condition.shots * mean["example"]


# -- the work of a sweep -----------------------------------------------------------------------------------------------------
def sibling_runs(sweep: Sweep) -> list[Path]:
    """Return the run folders with measurements that have the same parent folder as the sweep's own, which is included."""
    return sorted(path.parent for path in Path(sweep.output).parent.glob(f"*/{OBSERVED_FILE}"))


def count_work(sweep: Sweep, cells: Cells) -> Counter[str]:
    """Return group -> its episodes and answers, and for the judge the answers that it reads.

    An answer of several turns counts as one, because the number of turns is unknown.
    """
    counts = Counter[str]()
    for cell, number in cells:
        counts[worker_group(cell.model)] += number
        if cell.protocol.is_open_ended and sweep.judge:
            counts[judge_group(sweep.judge)] += number
    return counts


def replica_rates(sweep: Sweep, gpu_type: str, folders: Sequence[Path], cells: Cells) -> dict[str, Rate]:
    """Return the rate of each group on GPUs with work, including the judge's; raises SweepError for an unknown GPU type."""
    observed = {kind: read_observed(folders, gpu_type, kind) for kind in KINDS}

    def rate(model: ModelSpec, kind: str, pictures: float = 1.0) -> Rate:
        return replica_rate(model, gpu_type, kind, observed[kind].get(model.name, ObservedRate()), pictures)

    counts, seconds, rates = count_work(sweep, cells), Counter[str](), dict[str, Rate]()
    for cell, number in cells:
        if cell.model.gpus:
            open_ended = cell.protocol.is_open_ended
            own = rate(cell.model, ANSWERS) if open_ended else rate(cell.model, EPISODES, mean_pictures(cell.condition))
            seconds[cell.model.name] += number / own.episodes  # type: ignore[assignment]
            rates[cell.model.name] = own
    rates = {name: own._replace(episodes=counts[name] / seconds[name]) for name, own in rates.items() if counts[name]}
    judge = sweep.judge if sweep.is_judged or sweep.serving_judge else None
    return {**rates, judge_group(judge): rate(judge.model, VERDICTS)} if judge and judge.model.gpus else rates


# -- measurements of real runs ----------------------------------------------------------------------------------------------
def write_observed(
    folder: Path, schedule: Scheduler, gpu_type: str, plan: Plan, pending: Mapping[str, Sequence[int]]
) -> None:
    """Add the rates that a run on GPUs has measured to the folder's file; ``pending``: group -> its ordinals at the start.

    Only a plan of ``mcqa`` alone or of ``oeg`` alone measures models.
    """
    protocols = {cell.protocol for cell in plan.cells}
    played_kind = WORK_KINDS.get(protocols.pop(), "") if len(protocols) == 1 else ""
    measured: dict[str, dict[str, ObservedRate]] = {}
    for name, group in schedule.groups.items() if gpu_type else ():
        kind = VERDICTS if name.startswith(JUDGE) else played_kind
        if group.busy_s > 0 and group.played and kind:
            played = set(pending.get(name, ())).difference(group.waiting) if kind == EPISODES else ()
            cells = Counter(bisect_right(plan.offsets, ordinal) - 1 for ordinal in played)
            pictures = sum(count * mean_pictures(plan.cells[index].condition) for index, count in cells.items())
            mean = pictures / max(1, cells.total())
            rate = ObservedRate(group.played, group.busy_s, mean * group.played)
            measured.setdefault(kind, {})[name.removeprefix(JUDGE)] = rate
    add_observed(folder, gpu_type, measured)


def add_observed(folder: Path, gpu_type: str, fresh: Mapping[str, Mapping[str, ObservedRate]]) -> None:
    """Add measurements (kind of work -> model or judge -> rate) of one kind of GPU to a folder's file.

    The file stays as it is without measurements, or if ``gpu_type`` is empty.
    """
    if not (gpu := gpu_kind(gpu_type)) or not fresh:
        return
    content = _read_file(folder)
    for kind, measured in fresh.items():
        _add_up(content.setdefault(gpu, {}).setdefault(kind, {}), measured)
    text = _ObservedFile(content).model_dump_json(indent=2, exclude_defaults=True)
    checksums.write(folder / OBSERVED_FILE, text.encode())


def read_observed(folders: Iterable[Path], gpu_type: str, kind: str = EPISODES) -> dict[str, ObservedRate]:
    """Return model or judge -> sum of what these folders measured on this kind of GPU (empty: any); skip unreadable files."""
    totals: dict[str, ObservedRate] = {}
    for gpu, measured in (pair for folder in folders for pair in _read_file(folder).items()):
        if gpu_type.lower() in ("", gpu):
            _add_up(totals, measured.get(kind, {}))
    return totals


def _read_file(folder: Path) -> dict[str, dict[str, dict[str, ObservedRate]]]:
    """Return the content of a folder's file; empty if it is absent or cannot be read."""
    try:
        return _ObservedFile.model_validate_json(checksums.read_verified(folder / OBSERVED_FILE)).root
    except (OSError, ValueError):
        return {}


def _add_up(totals: dict[str, ObservedRate], measured: Mapping[str, ObservedRate]) -> None:
    for name, observed in measured.items():
        totals[name] = totals.get(name, ObservedRate()) + observed
