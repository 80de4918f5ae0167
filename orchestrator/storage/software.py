"""The software that an attempt ran with: the commit of the checkout, and the versions of the packages that shape answers.

Unknown versions are left out; nothing here fails an attempt.
"""

import subprocess
from contextlib import suppress
from pathlib import Path

from actors.node.import_path import installed_versions
from sweeps import packages

PACKAGES = (
    "proactive-sweep", "ray", "polars", "mlflow", "pillow", "numpy", "scipy", "vllm", "torch", "transformers", "openai",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of installed packages, including those that add scenarios, policies or measures."""
    return {**installed_versions(PACKAGES), **packages.versions()}


def version() -> str:
    """Return the version of this program; ``0+unknown`` in a checkout that is not installed."""
    return installed_versions(("proactive-sweep",)).get("proactive-sweep", "0+unknown")


def commit() -> str | None:
    """Return the commit of the checkout, with ``-dirty`` if files differ from it; None outside a checkout."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        if (root / ".git").exists():
            return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return None
