"""What keeps models from starting, told in the first second: nobody need wait for Ray to hear of a key that is not set.

On a cluster that RAY_ADDRESS names, other machines may have what this one lacks: there it is only said, and tried.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from actors.printable import printable
from orchestrator.inspection.model_check import wrong_here
from orchestrator.planning.plan import group, judge_group
from sweeps.spec import Judge, Sweep


def hopeless(sweep: Sweep, pending: Collection[str], judge: Judge | None) -> dict[str, str]:
    """Group that has something pending, or the judge's -> why it cannot start on this machine, each said on stderr."""
    models = {group(model): model for model in sweep.models if model.backend != "builtin" and group(model) in pending}
    if judge is not None:
        models[judge_group(judge)] = judge.model
    found = {name: why for name, model in models.items() if (why := wrong_here(model))}
    alone = not os.environ.get("RAY_ADDRESS") and not _joined()
    for name, why in found.items():
        more = "it is not started" if alone else "it is tried on the cluster's machines"
        print(printable(f"{name}: {why} ({more})"), file=sys.stderr, flush=True)
    return found if alone else {}


def _joined() -> bool:
    """Whether this process has joined a cluster already; Ray is not imported to know it."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())
