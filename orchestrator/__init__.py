"""proactive-sweep from Python: ``from orchestrator import load_sweep, plan, run, open_run`` (docs/notebook.md).

Each name is imported when it is first used, so workers and the command line do not load them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.errors import RunFolderError
    from envs.samples import BadData
    from orchestrator.api.open_run import Run, open_run
    from orchestrator.api.play import load_sweep, plan, run
    from sweeps.sweep_file import SweepError

__all__ = ["BadData", "Run", "RunFolderError", "SweepError", "load_sweep", "open_run", "plan", "run"]

MODULES = {
    "BadData": "envs.samples",
    "Run": "orchestrator.api.open_run",
    "RunFolderError": "orchestrator.storage.lock",
    "SweepError": "sweeps.sweep_file",
    "load_sweep": "orchestrator.api.play",
    "open_run": "orchestrator.api.open_run",
    "plan": "orchestrator.api.play",
    "run": "orchestrator.api.play",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
