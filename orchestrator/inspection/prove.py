"""``models prove``: the certificate of a model on this machine, from its front end alone: no weights, no cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.engine.backend import Backend
from actors.engine.registry import open_engine
from actors.engine.token_ids import open_without_weights
from actors.text.error_text import error_text
from actors.trial.certify import InputReport, package_versions, record_inputs
from envs.samples import BadData
from orchestrator.inspection.certificate import Certificate, add_certificate, certify
from orchestrator.inspection.model_try import default_sweep
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import load
from sweeps.spec import ModelSpec


@dataclass(frozen=True)
class Proof:
    """The outcome for one model: beside the package's call, and beside the certificate that was stored before."""

    model: str
    engine: str
    weights: str
    folder: str
    """Where the certificate is stored."""
    verdict: str
    """The status, unless the stored certificate says something else."""
    status: str
    outcome: str
    changed: list[str]
    """What differs from the stored certificate."""

    @property
    def ok(self) -> bool:
        """Return True if the input is the package's, as far as that can be known, and the stored certificate's."""
        return self.status in ("equal", "request only") and not self.changed

    @property
    def change(self) -> str:
        """Return one sentence on what differs from the stored certificate."""
        return f"{self.model} differs from its certificate in {self.folder}: {'; '.join(self.changed)}"


def prove_and_store(model: ModelSpec, sweep: Path | None, data: Path | None, output: Path) -> Proof:
    """Prove a model and store its certificate in the folder of its engine, if that has none; raises as ``prove``."""
    certificate, folder = prove(model, sweep, data), output / model.backend
    folder.mkdir(parents=True, exist_ok=True)
    changed = add_certificate(folder, model.name, certificate)
    verdict = "unequal to its certificate" if changed else certificate.status
    return Proof(
        model.name, model.backend, certificate.weights, str(folder), verdict, certificate.status, certificate.describe(), changed
    )  # fmt: skip


def prove(model: ModelSpec, sweep: Path | None, data: Path | None) -> Certificate:
    """Return the certificate of a model for the cells of a sweep; raises SweepError or BadData.

    An engine that cannot be opened is a certificate with the reason.
    """
    played = load(sweep) if sweep else default_sweep(data or Path("outputs/demo-data"))
    folder = data or Path(played.data)
    if not folder.is_dir():
        raise BadData(f"{folder} is not a folder on this machine; name one with --data DIR")
    plan = build_plan(played.model_copy(update={"models": (model,), "data": str(folder)}))
    return certify(model, asyncio.run(_record(plan, model, folder, plan.first_ordinals(model.name))))


async def _record(plan: Plan, model: ModelSpec, data: Path, ordinals: Sequence[int]) -> InputReport:
    if model.requirements:
        own = f"it plays with {', '.join(model.requirements)}, which this process has not"
        return InputReport(reason=f"{own}; `models try {model.name} --sweep FILE` installs and compares them")
    try:
        backend = _open(model, data)
    except Exception as problem:  # of transformers, vLLM or a service's client: any may stop a front end
        return InputReport(packages=package_versions(), reason=error_text(problem))
    try:
        return await record_inputs(plan, model, backend, data, ordinals)
    finally:
        await backend.close()


def _open(model: ModelSpec, data: Path) -> Backend:
    if model.backend == "openai":
        return open_engine(model, data)
    backend: Backend = open_without_weights(model, data)
    return backend
