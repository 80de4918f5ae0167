"""A folder outside the checkout from which the program runs as a user types it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def working_folder(folder: Path) -> dict[str, str]:
    """Put ``bin/proactive-sweep`` and links to the rooms into the folder; PATH and PYTHONPATH to run it with.

    Ray's workers import from where the driver stands, so the rooms must lie there.
    """
    (folder / "bin").mkdir()
    script = folder / "bin/proactive-sweep"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestrator "$@"\n')
    script.chmod(0o755)
    for room in ("envs", "sweeps", "actors", "orchestrator"):
        (folder / room).symlink_to(ROOT / room)
    return {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
