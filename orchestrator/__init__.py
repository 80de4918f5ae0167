"""proactive-sweep from Python: ``from orchestrator import load_sweep, plan, run, open_run`` (docs/notebook.md).

Each name is imported when it is first used, so workers and the command line do not load them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import BadData, Run, RunFolderError, SweepError, load_sweep, open_run, plan, run

__all__ = ["BadData", "Run", "RunFolderError", "SweepError", "load_sweep", "open_run", "plan", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'orchestrator' has no attribute {name!r}")
    return getattr(import_module("orchestrator.api"), name)


def __dir__() -> list[str]:
    return __all__
