"""The sweep of a model's trial, and the proof of its input (``models try --prove``), which loads no weights."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from actors.engine.backend import Backend
from actors.engine.registry import open_engine, open_without_weights
from actors.text.printable import error_text
from actors.trial.certificate import Certificate
from actors.trial.certify import package_versions, record_inputs
from envs.samples import BadData, scenarios_in
from orchestrator.inspection.certificate import add_certificate
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import SweepError, build, load
from sweeps.own_model import find_models
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import Tracking
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

SAMPLES = 2
"""Samples per scenario and condition."""
CONDITIONS, TEXT_ONLY = (ZERO_SHOT, "hint", "history"), "text-only"
"""Conditions if no sweep is named, and the one for models that read text only."""


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
    without = "builtin" if services else "openai"
    return [model for model in find_models(names, sweep, backend) if names or model.backend != without]


def trial_sweep(models: Sequence[ModelSpec], path: Path | None, data: Path | None) -> Sweep:
    """Return a sweep of two samples per scenario and condition, without judge and tracking; raises SweepError or BadData."""
    sweep = own_sweep(models, path, data)
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise SweepError(f"two models are named {twice}; try them one at a time, or rename a folder")
    few = Selection(limit=SAMPLES, filtered=sweep.selection.filtered)
    return sweep.model_copy(update={
        "selection": few, "open_ended": sweep.open_ended.model_copy(update={"selection": few}), "judge": None,
        "protocols": tuple(dict.fromkeys(Protocol.OEG if p.is_open_ended else p for p in sweep.protocols)),
        "tracking": Tracking(uri="none"), "cluster": sweep.cluster.model_copy(update={"wait_hours": 0}),
        "precision": None, "measures": (),
    })  # fmt: skip


def own_sweep(models: Sequence[ModelSpec], path: Path | None, data: Path | None) -> Sweep:
    """Return a sweep of these models: of the file, or of the default conditions over a benchmark folder."""
    if path:
        sweep = load(path)
    else:
        folder = data or Path("outputs/demo-data")
        if not (names := scenarios_in(folder)):
            raise BadData(f"{folder} has no benchmark; type --data DIR (`proactive-sweep data demo DIR` draws one)")
        reads_text = ["no pictures" in model.limits for model in models]
        conditions = [*([] if all(reads_text) else CONDITIONS), *([TEXT_ONLY] if any(reads_text) else [])]
        table = {"data": str(folder), "models": ["oracle"], "conditions": conditions, "scenarios": names}
        sweep = build({"name": "models-try", **table}, "models try")
    return sweep.model_copy(update={"models": tuple(models), "data": str(data or sweep.data)})


def prove_and_store(model: ModelSpec, sweep: Path | None, data: Path | None, output: Path) -> Proof:
    """Certify a model for the cells of a sweep, and store it in the folder of its backend if that has no certificate.

    Raises SweepError or BadData. If the engine cannot be opened, the certificate holds the reason.
    """
    played, folder = own_sweep([model], sweep, data), output / model.backend
    if not Path(played.data).is_dir():
        raise BadData(f"{played.data} is not a folder on this machine; name one with --data DIR")
    new = asyncio.run(_record(build_plan(played), model, Path(played.data)))
    folder.mkdir(parents=True, exist_ok=True)
    changed = add_certificate(folder, model.name, new)
    verdict = "unequal to its certificate" if changed else new.status
    return Proof(model.name, model.backend, new.weights, str(folder), verdict, new.status, new.describe(), changed)


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
