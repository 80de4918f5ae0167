"""proactive-sweep in other frameworks: Inspect, verifiers, Gymnasium, the Hub (docs/environments.md), MLflow's traces.

verifiers finds its taskset by the name of this package: ``vf-eval proactive-bridges``.
"""

from importlib import import_module
from typing import Any

__all__ = ["ProactiveEnv", "ProactiveHarness", "ProactiveTaskset"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'proactive_bridges' has no attribute {name!r}")
    return getattr(import_module("proactive_bridges.verifiers_taskset"), name)
