"""The name under which a service's batch API keeps the batches of a run folder."""

import re
import secrets
from pathlib import Path

from envs import regular
from orchestrator.storage import atomic_write
from sweeps.spec import Sweep

BATCH_NAME_FILE = "batches.name"
"""The file in the run folder with the name, 24 hex digits; it exists only if a model has ``batch = true``."""
BATCH_NAME = re.compile(r"[0-9a-f]{24}")


def batch_name(sweep: Sweep, folder: Path) -> str:
    """Return the name of the run folder's batches at a service; empty if no model sends batches.

    It is stored before the first batch is sent, so later attempts, and copies of the folder, find the batches and their answers.
    """
    if not any(model.batch for model in sweep.models):
        return ""
    try:
        name = regular.read_bytes(folder / BATCH_NAME_FILE, 1024).decode("ascii", "replace").strip()
    except OSError:
        name = ""
    if not BATCH_NAME.fullmatch(name):
        name = secrets.token_hex(12)
        atomic_write.write(folder / BATCH_NAME_FILE, f"{name}\n".encode())
    return name
