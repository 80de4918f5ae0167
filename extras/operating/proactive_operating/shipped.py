"""The sweeps that ship with this extra."""

from pathlib import Path

SWEEPS = Path(__file__).parent / "sweeps"
