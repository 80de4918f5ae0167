"""proactive-sweep from Python: ``from orchestrator import load_sweep, plan, run, open_run`` (docs/notebook.md).

Each name is imported when it is first used, so workers and the command line do not load them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.errors import RunFolderError
    from envs.samples import BadData
    from orchestrator.api import Run, load_sweep, open_run, plan, run
    from sweeps.sweep_file import SweepError

__all__ = ["BadData", "Run", "RunFolderError", "SweepError", "load_sweep", "open_run", "plan", "run"]

ERRORS = {
    "BadData": "envs.samples",
    "RunFolderError": "envs.errors",
    "SweepError": "sweeps.sweep_file",
}
"""Public name of an error -> the module that defines it; the others are of ``orchestrator.api``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    return getattr(import_module(ERRORS.get(name, "orchestrator.api")), name)


def __dir__() -> list[str]:
    return __all__
