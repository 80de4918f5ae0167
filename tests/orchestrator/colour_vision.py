"""How far colours stay apart for readers with and without colour blindness.

Dichromacy is simulated after Machado et al. 2009 (IEEE TVCG 15:1291-1298), distances are those of CAM02-UCS (Luo et al.
2006), where 1 is about a just noticeable difference side by side and 10 is told at a glance.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from colorspacious import cspace_converter
from matplotlib.colors import to_rgb

KINDS = (None, "protanomaly", "deuteranomaly", "tritanomaly")


def perceive(palette: Iterable[str], kind: str | None) -> np.ndarray:
    """The colours (n, 3) in CAM02-UCS as a reader sees them: of full colour vision (None), or without one cone."""
    rgb = np.array([to_rgb(colour) for colour in palette])
    if kind is not None:
        rgb = cspace_converter({"name": "sRGB1+CVD", "cvd_type": kind, "severity": 100}, "sRGB1")(rgb)
    return cspace_converter("sRGB1", "CAM02-UCS")(np.clip(rgb, 0, 1))


def least_distance(palette: Iterable[str]) -> float:
    """Return the least distance between two of the colours for any of the four kinds of readers."""
    colours = list(palette)
    least = np.inf
    for kind in KINDS:
        positions = perceive(colours, kind)
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
        least = min(least, apart[np.triu_indices(len(colours), 1)].min())
    return float(least)
