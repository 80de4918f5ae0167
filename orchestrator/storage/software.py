"""The software that an attempt ran with: the commit of the checkout, and the versions of the packages that shape answers.

What cannot be told is left out; nothing here fails an attempt.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import subprocess
from pathlib import Path

PACKAGES = (
    "proactive-sweep",
    "ray",
    "polars",
    "mlflow",
    "pillow",
    "numpy",
    "scipy",
    "vllm",
    "torch",
    "transformers",
    "openai",
)


def versions() -> dict[str, str]:
    """Package -> version, of those that are installed; those too that offer scenarios, policies or measures."""
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    from sweeps import packages

    return {**installed, **packages.versions()}


def version() -> str:
    """The version of this program; ``0+unknown`` in a checkout that is not installed."""
    try:
        return importlib.metadata.version("proactive-sweep")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def commit() -> str | None:
    """The commit of the checkout that runs, with ``-dirty`` where files differ from it; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
