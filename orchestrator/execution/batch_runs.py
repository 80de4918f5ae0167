"""The name by which a run folder's batches are found at a service: written before the first is sent, the same in every attempt.

A folder that is copied takes the name along, and with it the answers that its batches have brought.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from envs import regular
from orchestrator.storage import atomic_write
from sweeps.spec import Sweep

FILE = "batches.name"
"""24 hex digits; only where a model has ``batch = true``."""
NAME = re.compile(r"[0-9a-f]{24}")


def name(sweep: Sweep, folder: Path) -> str:
    """The folder's name at services, made where there is none; empty where no model needs one."""
    if not any(model.batch for model in sweep.models):
        return ""
    try:
        known = regular.content(folder / FILE, 1024).decode("ascii", "replace").strip()
    except OSError:
        known = ""
    if not NAME.fullmatch(known):
        known = secrets.token_hex(12)
        atomic_write.write(folder / FILE, f"{known}\n".encode())
    return known
