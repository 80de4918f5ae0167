"""The outcome of a model's trial as one row; what is planned for it, and in which words it is judged.

A model that fails is a row like any other: its last cell is one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.trial.front_end import FrontEnd
from actors.trial.trial import PromptComparison, TrialReport
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.inspection.prompt_preview import checkpoint
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import SweepError, build, find_models, load
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

SAMPLES = 2
"""Samples of each scenario x condition."""
CONDITIONS = (ZERO_SHOT, "hint", "history")
"""Played where no sweep names others."""
UNANSWERED = ("unprocessable", "overflow", "refused")
"""Endings of episodes that could not be asked to their end."""
GIB = 2**30


@dataclass(frozen=True)
class Row:
    """One model, tried."""

    model: str
    loads: float | None = None
    """Seconds until the engine was ready."""
    host: float | None = None
    gpu: float | None = None
    """GiB of host memory, and of the worker's GPUs."""
    picture: int | None = None
    """Tokens of the first picture."""
    rate: float | None = None
    """Episodes a second."""
    episodes: int = 0
    ended: int = 0
    """Episodes that could not be asked to their end: too long, too many pictures, refused."""
    equal: str = ""
    """Ids and replies equal to the package-style call; empty if nothing was compared."""
    wrong: str = ""
    """The fault, in one sentence."""
    front: FrontEnd | None = None
    """Of a model on vLLM that shows pictures."""
    bound: str = ""
    """The bottleneck, engine or front end, in one sentence; empty if not measured."""

    @property
    def ok(self) -> bool:
        """Return True if nothing is known to be wrong."""
        return not self.wrong

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        held = " + ".join(f"{size:.1f} {where}" for size, where in ((self.gpu, "GPU"), (self.host, "host")) if size)
        return (
            self.model, _number(self.loads, 1), held or "-", _number(self.picture, 0), _number(self.rate, 2),
            f"{self.ended} of {self.episodes}", self.equal or "-", self.wrong or "nothing",
        )  # fmt: skip

    def table(self) -> dict[str, Any]:
        """The row as JSON."""
        return {**asdict(self), "ok": self.ok}


def models(names: Sequence[str], sweep: Path | None, backend: str = "") -> list[ModelSpec]:
    """The models to try: by name, by checkpoint folder, or those of a sweep that run here; raises SweepError."""
    if not names and sweep is None:
        raise SweepError("models try loads what it tries: name models or checkpoint folders, or add --sweep FILE")
    if names:
        return [checkpoint(name, backend) or find_models([name], sweep)[0] for name in names]
    return [model for model in find_models([], sweep) if model.backend != "openai"]


def planned(model: ModelSpec, sweep: Path | None, data: Path | None) -> tuple[Sweep, Plan]:
    """Two samples of each scenario x condition of the sweep, or of the default conditions; raises SweepError or BadData."""
    found = load(sweep) if sweep else _default(data or Path("outputs/demo-data"))
    few = Selection(limit=SAMPLES, filtered=found.selection.filtered)
    found = found.model_copy(
        update={
            "models": (model,),
            "data": str(data) if data else found.data,
            "selection": few,
            "open_ended": found.open_ended.model_copy(update={"selection": few}),
            "protocols": tuple(dict.fromkeys(Protocol.OEG if p.is_open_ended else p for p in found.protocols)),
            "judge": None,
        }
    )
    plan = build_plan(found)
    if not plan.total:
        raise BadData(
            f"{found.data} has no episode for {model.name} under {', '.join(c.name for c in found.conditions)}"
        )
    return found, plan


def _default(data: Path) -> Sweep:
    scenarios = [name for name, game in SCENARIOS.items() if (data / f"{game.stem}_preprocessed.jsonl").is_file()]
    if not scenarios:
        raise BadData(f"{data} holds no benchmark; name one by --data DIR (`proactive-sweep data demo DIR` draws one)")
    return build({"name": "models-try", "data": str(data), "models": ["oracle"], "conditions": list(CONDITIONS),
                  "scenarios": scenarios}, "models try")  # fmt: skip


def judged(model: ModelSpec, loads: float, tried: TrialReport) -> Row:
    """The row of a model that loaded and played."""
    episodes = sum(tried.endings.values())
    ended = sum(tried.endings.get(name, 0) for name in UNANSWERED)
    gpu = None if tried.gpu is None else tried.gpu / GIB
    return Row(
        model.name, loads, tried.host / GIB, gpu, tried.picture, episodes / tried.seconds, episodes, ended,
        _equal(tried.compared), _wrong(tried, ended), tried.front, bound(model, tried.front) if tried.front else "",
    )  # fmt: skip


def bound(model: ModelSpec, front: FrontEnd) -> str:
    """Return the bottleneck of a worker, and the engines per GPU and processors per worker that it calls for."""
    pace = min(front.engine, front.ceiling)
    busy = f"a worker keeps {1 + pace / front.ceiling:.1f} processors busy"
    front_end = (
        f"{front.ceiling:.0f} ({1e3 / front.new_ms:.0f} with new pictures, {1e3 / front.known_ms:.0f} with known ones)"
    )
    if front.engine <= front.ceiling:
        return f"the engine bounds it: {front.engine:.0f} requests/s, its front end prepares {front_end}; {busy}"
    engines = math.ceil(front.engine / front.ceiling)
    shares = f"{engines} engines a GPU fill it (gpus = {model.gpus / engines:.2g}); " if 0 < model.gpus <= 1 else ""
    return f"the front end bounds it: it prepares {front_end} requests/s, the engine answers {front.engine:.0f}; {shares}{busy}"


def _equal(compared: Sequence[PromptComparison]) -> str:
    if not compared:
        return ""
    ids, replies = sum(_same_ids(one) for one in compared), sum(_same_reply(one) for one in compared)
    twice = ", package: start token twice" if any(_start_twice(one) for one in compared) else ""
    return f"ids {ids}/{len(compared)}, replies {replies}/{len(compared)}{twice}"


def _wrong(tried: TrialReport, ended: int) -> str:
    """The first of: ids that differ, nobody to compare with, episodes that could not be asked."""
    for one in tried.compared:
        if not _same_ids(one):
            return (
                f"a prompt with {one.pictures} pictures has {len(one.ids)} tokens, the package's call {len(one.package_ids)};"
                f" they differ from token {_first(one)} on"
            )
    if tried.uncompared.startswith("transformers"):
        return f"not compared: {tried.uncompared}"
    return tried.reason if ended else ""


def _same_ids(one: PromptComparison) -> bool:
    return one.ids == one.package_ids or _start_twice(one)


def _start_twice(one: PromptComparison) -> bool:
    """Idefics3: template and tokenizer both write the start token in the package; here it stands once."""
    return len(one.package_ids) > 1 and [one.package_ids[0], *one.ids] == one.package_ids


def _same_reply(one: PromptComparison) -> bool:
    return one.reply == one.package_reply.rstrip("\ufffd")


def _first(one: PromptComparison) -> int:
    pairs = zip(one.ids, one.package_ids, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one.ids), len(one.package_ids)))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def protocol(sweep: Sweep) -> Protocol | None:
    """The only protocol that a sweep plays; None where it plays both, whose rates cannot be told apart."""
    return sweep.protocols[0] if len(sweep.protocols) == 1 else None
