"""Operating curves and decision maps of proactive-sweep."""

from pathlib import Path

SWEEPS = Path(__file__).parent / "sweeps"
"""The sweeps that ship with this extra."""
