"""``models try``: the plan of a model's trial and its row in the table; a failure is a sentence in the last cell."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.engine.backend import Backend
from actors.engine.registry import open_engine, open_without_weights
from actors.text.printable import error_text
from actors.trial.certify import InputReport, package_versions, record_inputs
from actors.trial.trial import TrialReport
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.inspection.certificate import Certificate, add_certificate, certify
from orchestrator.inspection.checkpoint_entry import checkpoint_specs
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import SweepError, build, load
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

SAMPLES = 2
"""Samples per scenario and condition."""
CONDITIONS, TEXT_CONDITIONS = (ZERO_SHOT, "hint", "history"), ("text-only",)
"""Conditions if no sweep is named: for models that take pictures, and for those that read text only."""
UNANSWERED = ("unprocessable", "overflow", "refused")
"""Endings of episodes that the model could not play to their end."""
GIB = 2**30


@dataclass(frozen=True)
class Row:
    """The outcome of one model's trial."""

    model: str
    loads: float | None = None
    """Seconds until the engine is ready."""
    host: float | None = None
    gpu: float | None = None
    """GiB of host memory, and of the worker's GPUs."""
    picture: int | None = None
    """Tokens of the first picture."""
    rate: float | None = None
    """Episodes per second."""
    episodes: int = 0
    ended: int = 0
    """Episodes with an ending in ``UNANSWERED``."""
    certificate: str = ""
    """``Certificate.describe`` for the input of its engine."""
    input: str = ""
    """``Certificate.status``; empty if nothing was recorded."""
    wrong: str = ""
    """The fault, in one sentence; empty if none."""

    @property
    def ok(self) -> bool:
        """Return True if the trial found no fault."""
        return not self.wrong

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the texts of the row."""
        memory = " + ".join(f"{size:.1f} {where}" for size, where in ((self.gpu, "GPU"), (self.host, "host")) if size)
        return (
            self.model, _number(self.loads, 1), memory or "-", _number(self.picture, 0), _number(self.rate, 2),
            f"{self.ended} of {self.episodes}", self.input or "-", self.wrong or "nothing",
        )  # fmt: skip

    def table(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return {**asdict(self), "ok": self.ok}


def models(names: Sequence[str], sweep: Path | None, backend: str = "", services: bool = False) -> list[ModelSpec]:
    """Return the models to try: by name, by checkpoint folder, or those of a sweep; raises SweepError.

    Of a sweep's models, ``services`` (for certificates) keeps services and drops policies; without it, the reverse.
    """
    if not names and sweep is None:
        raise SweepError("models try loads every model: name models or checkpoint folders, or a sweep")
    entries = checkpoint_specs(names, sweep, backend)
    without = "builtin" if services else "openai"
    return entries if names else [model for model in entries if model.backend != without]


def plan_trial(model: ModelSpec, sweep: Path | None, data: Path | None) -> tuple[Sweep, Plan]:
    """Plan two samples per scenario and condition, of a sweep or by default; raises SweepError or BadData."""
    conditions = TEXT_CONDITIONS if "no pictures" in model.limits else CONDITIONS
    tried = load(sweep) if sweep else default_sweep(data or Path("outputs/demo-data"), conditions)
    few = Selection(limit=SAMPLES, filtered=tried.selection.filtered)
    tried = tried.model_copy(
        update={
            "models": (model,),
            "data": str(data) if data else tried.data,
            "selection": few,
            "open_ended": tried.open_ended.model_copy(update={"selection": few}),
            "protocols": tuple(dict.fromkeys(Protocol.OEG if p.is_open_ended else p for p in tried.protocols)),
            "judge": None,
        }
    )
    plan = build_plan(tried)
    if not plan.total:
        raise BadData(
            f"{tried.data} has no episode for {model.name} under {', '.join(c.name for c in tried.conditions)}"
        )
    return tried, plan


def default_sweep(data: Path, conditions: Sequence[str] = CONDITIONS) -> Sweep:
    """Return a sweep of conditions over the scenarios of a benchmark folder; raises BadData if it has none."""
    scenarios = [name for name, game in SCENARIOS.items() if (data / f"{game.stem}_preprocessed.jsonl").is_file()]
    if not scenarios:
        raise BadData(f"{data} has no benchmark; name one with --data DIR (`proactive-sweep data demo DIR` draws one)")
    return build({"name": "models-try", "data": str(data), "models": ["oracle"], "conditions": list(conditions),
                  "scenarios": scenarios}, "models try")  # fmt: skip


def trial_row(model: ModelSpec, loads: float, report: TrialReport) -> Row:
    """Return the row of a model that loaded and played."""
    episodes = sum(report.endings.values())
    ended = sum(report.endings.get(name, 0) for name in UNANSWERED)
    gpu, certificate = None if report.gpu is None else report.gpu / GIB, certify(model, report.inputs)
    unequal = certificate.describe() if certificate.status == "unequal" else ""
    return Row(
        model.name, loads, report.host / GIB, gpu, report.picture, episodes / report.seconds, episodes, ended,
        certificate.describe(), certificate.status, unequal or (report.reason if ended else ""),
    )  # fmt: skip


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def protocol(sweep: Sweep) -> Protocol | None:
    """Return the protocol of a sweep; None if it has several, because their rates are not measured apart."""
    return sweep.protocols[0] if len(sweep.protocols) == 1 else None


@dataclass(frozen=True)
class Proof:
    """One model's input, compared with the package's call and with the certificate stored before."""

    model: str
    engine: str
    weights: str
    folder: str
    """Where the certificate is stored."""
    verdict: str
    """The status, or ``unequal to its certificate`` if the stored certificate differs."""
    status: str
    outcome: str
    changed: list[str]
    """Parts that differ from the stored certificate."""

    @property
    def ok(self) -> bool:
        """Return True if the input equals the stored certificate and, as far as known, the package's call."""
        return self.status in ("equal", "request only") and not self.changed

    @property
    def change(self) -> str:
        """Return one sentence on what differs from the stored certificate."""
        return f"{self.model} differs from its certificate in {self.folder}: {'; '.join(self.changed)}"


def prove_and_store(model: ModelSpec, sweep: Path | None, data: Path | None, output: Path) -> Proof:
    """Prove a model and store its certificate in the folder of its backend if that has none; raises like ``prove``."""
    certificate, folder = prove(model, sweep, data), output / model.backend
    folder.mkdir(parents=True, exist_ok=True)
    changed = add_certificate(folder, model.name, certificate)
    verdict = "unequal to its certificate" if changed else certificate.status
    return Proof(
        model.name, model.backend, certificate.weights, str(folder), verdict, certificate.status, certificate.describe(), changed
    )  # fmt: skip


def prove(model: ModelSpec, sweep: Path | None, data: Path | None) -> Certificate:
    """Return the certificate of a model for the cells of a sweep; raises SweepError or BadData.

    If the engine cannot be opened, the certificate holds the reason.
    """
    played = load(sweep) if sweep else default_sweep(data or Path("outputs/demo-data"))
    folder = data or Path(played.data)
    if not folder.is_dir():
        raise BadData(f"{folder} is not a folder on this machine; name one with --data DIR")
    plan = build_plan(played.model_copy(update={"models": (model,), "data": str(folder)}))
    return certify(model, asyncio.run(_record(plan, model, folder, plan.first_ordinals(model.name))))


async def _record(plan: Plan, model: ModelSpec, data: Path, ordinals: Sequence[int]) -> InputReport:
    if model.requirements:
        own = f"it plays with {', '.join(model.requirements)}, which this process does not have"
        return InputReport(reason=f"{own}; `models try SWEEP` installs and compares them")
    try:
        open_front = open_engine if model.backend == "openai" else open_without_weights
        backend: Backend = open_front(model, data)
    except Exception as problem:  # transformers, vLLM or a service's client may raise anything
        return InputReport(packages=package_versions(), reason=error_text(problem))
    try:
        return await record_inputs(plan, model, backend, data, ordinals)
    finally:
        await backend.close()
