"""Certifies the input of each model before it plays: its first worker records what it makes of fixed requests.

The driver stores the record as a certificate. One that cannot be built is stored with the reason, and never stops a run.
"""

import asyncio
import logging
import sys
from pathlib import Path

from ray.exceptions import RayTaskError

from actors.text.printable import list_first, printable
from actors.trial.certificate import MAX_LISTED, Certificate
from orchestrator.execution.worker_pool import WorkerHandle, resolve
from orchestrator.inspection.certificate import add_certificate
from orchestrator.planning.plan import Plan

TIMEOUT_S = 360.0

log = logging.getLogger(__name__)


async def certify(worker: WorkerHandle, plan: Plan, folder: Path, certified: set[str]) -> None:
    """Certify the models of a worker that plays nothing yet, unless its group is among the ``certified``. Raises OSError.

    If the worker dies meanwhile, the group's next worker is asked.
    """
    models = [model for model in worker.models if model.backend != "builtin"]
    if not models or worker.group in certified:
        return
    certified.add(worker.group)
    ordinals, reason = {model.name: plan.first_ordinals(model.name) for model in models}, ""
    made: dict[str, Certificate] = {}
    try:
        made = await asyncio.wait_for(resolve(worker.actor.certify.remote(ordinals)), TIMEOUT_S)
    except TimeoutError:
        reason = f"it took longer than {TIMEOUT_S:.0f} s"
    except RayTaskError as problem:
        reason = str(problem.cause) or type(problem.cause).__name__
    except BaseException:
        certified.discard(worker.group)
        raise
    if reason:
        made = {m.name: Certificate(source=m.source, backend=m.backend, reason=reason) for m in models}
    for name, certificate in made.items():
        log.info("%s: %s", name, certificate.describe())
        if changed := add_certificate(folder, name, certificate):
            what = list_first(changed, MAX_LISTED, "; ")
            text = f"{name} does not receive what its certificate says: {what}"
            print(printable(text), file=sys.stderr, flush=True)
