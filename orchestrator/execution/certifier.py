"""Certifies the input of each model before it plays: its first worker records what it makes of fixed requests.

The driver stores the record as a certificate. One that cannot be built is stored with the reason, and never stops a run.
"""

import logging
import sys
from pathlib import Path

from actors.text.printable import printable
from orchestrator.execution.worker_pool import WorkerHandle, record_inputs
from orchestrator.inspection.certificate import add_certificate, describe_change
from orchestrator.planning.plan import Plan

TIMEOUT_S = 360.0
"""Seconds that a worker may take."""

log = logging.getLogger(__name__)


class Certifier:
    """The certificates of one attempt."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.certified: set[str] = set()
        """Groups whose first worker is asked or has answered; if it dies before, the next one is asked."""

    async def certify(self, worker: WorkerHandle) -> None:
        """Certify the models of a worker that plays nothing yet, once per group. Raises OSError."""
        models = [model.name for model in worker.models if model.backend != "builtin"]
        if not models or worker.group in self.certified:
            return
        self.certified.add(worker.group)
        try:
            made = await record_inputs(worker, {name: self.plan.first_ordinals(name) for name in models}, TIMEOUT_S)
        except BaseException:
            self.certified.discard(worker.group)
            raise
        for name, certificate in made.items():
            log.info("%s: %s", name, certificate.describe())
            if changed := add_certificate(self.folder, name, certificate):
                print(printable(describe_change(name, changed)), file=sys.stderr, flush=True)
