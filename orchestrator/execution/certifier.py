"""Certifies the input of each model before it plays: its first worker records what it makes of fixed requests.

The driver stores the record as a certificate. One that cannot be built is stored with the reason, and never stops a run.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from actors.text.printable import printable
from orchestrator.execution.worker_pool import WorkerHandle, record_inputs
from orchestrator.inspection.certificate import add_certificate, describe_change
from orchestrator.planning.plan import Plan
from sweeps.spec import ModelSpec

TIMEOUT_S = 360.0
"""Seconds that a worker may take."""

log = logging.getLogger(__name__)


class Certifier:
    """The certificates of one attempt."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.certified: set[str] = set()
        self.locks: dict[str, asyncio.Lock] = {}
        """Group -> lock that its first worker holds while it is asked; if that worker dies, the next one is asked."""

    async def certify(self, worker: WorkerHandle) -> None:
        """Certify the models of a worker that plays nothing yet, once per group; its other workers wait. Raises OSError."""
        models = [model for model in worker.models if model.backend != "builtin"]
        if not models:
            return
        async with self.locks.setdefault(worker.group, asyncio.Lock()):
            if worker.group not in self.certified:
                await self._certify(worker, models)
                self.certified.add(worker.group)

    async def _certify(self, worker: WorkerHandle, models: Sequence[ModelSpec]) -> None:
        ordinals = {model.name: self.plan.first_ordinals(model.name) for model in models}
        for name, certificate in (await record_inputs(worker, ordinals, TIMEOUT_S)).items():
            log.info("%s: %s", name, certificate.describe())
            if changed := add_certificate(self.folder, name, certificate):
                print(printable(describe_change(name, changed)), file=sys.stderr, flush=True)
