"""``models try``: the plan of a model's trial and the row that judges it; a failure is a sentence in the last cell."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Backend
from actors.engine.registry import open_engine, open_without_weights
from actors.text.printable import error_text
from actors.trial.certificate import Certificate
from actors.trial.certify import package_versions, record_inputs
from actors.trial.trial import TrialReport
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.inspection.certificate import add_certificate
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import SweepError, build, load
from sweeps.own_model import find_models
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

SAMPLES = 2
"""Samples per scenario and condition."""
CONDITIONS, TEXT_CONDITIONS = (ZERO_SHOT, "hint", "history"), ("text-only",)
"""Conditions if no sweep is named: for models that take pictures, and for those that read text only."""
UNANSWERED = ("unprocessable", "overflow", "refused")
"""Endings of episodes that the model could not play to their end."""


class Row(NamedTuple):
    """The outcome of one model's trial."""

    model: str
    loads: float | None = None
    rate: float | None = None
    """Seconds until the engine is ready, and episodes per second."""
    episodes: int = 0
    ended: int = 0
    """Episodes with an ending in ``UNANSWERED``."""
    certificate: str = ""
    input: str = ""
    """Description and status of its certificate; empty if nothing was recorded."""
    wrong: str = ""
    """The fault, in one sentence; empty if none."""

    @property
    def cells(self) -> tuple[str, ...]:
        loads, rate = ("-" if n is None else f"{n:.{digits}f}" for n, digits in ((self.loads, 1), (self.rate, 2)))
        cut = f"{self.ended} of {self.episodes}"
        return self.model, loads, rate, cut, self.input or "-", self.wrong or "nothing"


class Proof(NamedTuple):
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


def models(names: Sequence[str], sweep: Path | None, backend: str = "", services: bool = False) -> list[ModelSpec]:
    """Return the models to try: by name, by checkpoint folder, or those of a sweep; raises SweepError.

    Of a sweep's models, ``services`` (for certificates) keeps services and drops policies; without it, the reverse.
    """
    if not names and sweep is None:
        raise SweepError("name models, folders of checkpoints or a sweep to try")
    entries = find_models(names, sweep, backend)
    without = "builtin" if services else "openai"
    return entries if names else [model for model in entries if model.backend != without]


def plan_trial(model: ModelSpec, sweep: Path | None, data: Path | None) -> tuple[Sweep, Plan]:
    """Plan two samples per scenario and condition, of a sweep or by default; raises SweepError or BadData."""
    tried = _sweep(model, sweep, data)
    few = Selection(limit=SAMPLES, filtered=tried.selection.filtered)
    protocols = dict.fromkeys(Protocol.OEG if p.is_open_ended else p for p in tried.protocols)
    open_ended = tried.open_ended.model_copy(update={"selection": few})
    changes = {"selection": few, "open_ended": open_ended, "protocols": tuple(protocols), "judge": None}
    tried = tried.model_copy(update=changes)
    plan = build_plan(tried)
    if not plan.total:
        names = ", ".join(condition.name for condition in tried.conditions)
        raise BadData(f"{tried.data} has no episode for {model.name} under {names}")
    return tried, plan


def _sweep(model: ModelSpec, path: Path | None, data: Path | None) -> Sweep:
    """Return a sweep of this model alone: of the file, or of the default conditions over a benchmark folder."""
    if path:
        sweep = load(path)
    else:
        folder = data or Path("outputs/demo-data")
        names = [name for name, game in SCENARIOS.items() if (folder / f"{game.stem}_preprocessed.jsonl").is_file()]
        if not names:
            raise BadData(
                f"{folder} has no benchmark; name one with --data DIR (`proactive-sweep data demo DIR` draws one)"
            )
        conditions = TEXT_CONDITIONS if "no pictures" in model.limits else CONDITIONS
        table = {"data": str(folder), "models": ["oracle"], "conditions": list(conditions), "scenarios": names}
        sweep = build({"name": "models-try", **table}, "models try")
    return sweep.model_copy(update={"models": (model,), "data": str(data or sweep.data)})


def trial_row(model: ModelSpec, loads: float, report: TrialReport) -> Row:
    """Return the row of a model that loaded and played."""
    episodes, certificate = sum(report.endings.values()), report.certificate
    ended = sum(report.endings.get(name, 0) for name in UNANSWERED)
    unequal = certificate.describe() if certificate.status == "unequal" else ""
    wrong = unequal or (report.reason if ended else "")
    text, rate = certificate.describe(), episodes / report.seconds
    return Row(model.name, loads, rate, episodes, ended, text, certificate.status, wrong)


def prove_and_store(model: ModelSpec, sweep: Path | None, data: Path | None, output: Path) -> Proof:
    """Certify a model for the cells of a sweep, and store it in the folder of its backend if that has no certificate.

    Raises SweepError or BadData. If the engine cannot be opened, the certificate holds the reason.
    """
    played = _sweep(model, sweep, data)
    if not Path(played.data).is_dir():
        raise BadData(f"{played.data} is not a folder on this machine; name one with --data DIR")
    plan, folder = build_plan(played), output / model.backend
    certificate = asyncio.run(_record(plan, model, Path(played.data)))
    folder.mkdir(parents=True, exist_ok=True)
    changed = add_certificate(folder, model.name, certificate)
    verdict = "unequal to its certificate" if changed else certificate.status
    return Proof(
        model.name, model.backend, certificate.weights, str(folder), verdict, certificate.status, certificate.describe(), changed
    )  # fmt: skip


async def _record(plan: Plan, model: ModelSpec, data: Path) -> Certificate:
    without = Certificate(source=model.source, backend=model.backend, packages=package_versions())
    if model.requirements:
        own = f"it plays with {', '.join(model.requirements)}, which this process does not have"
        return without.model_copy(update={"reason": f"{own}; `models try SWEEP` installs and compares them"})
    try:
        open_front = open_engine if model.backend == "openai" else open_without_weights
        backend: Backend = open_front(model, data)
    except Exception as problem:  # transformers, vLLM or a service's client may raise anything
        return without.model_copy(update={"reason": error_text(problem)})
    try:
        return await record_inputs(plan, model, backend, data, plan.first_ordinals(model.name))
    finally:
        await backend.close()
