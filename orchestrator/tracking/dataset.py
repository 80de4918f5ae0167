"""What is played, as a tracker names a data set: equal samples give the equal digest, wherever they lie."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from envs.types import Sample

COLUMNS = ("scenario", "id", "prompt", "options", "categories", "answer")
"""What a sample's row has, as the schema says it."""


def described(name: str, source: str, samples: Mapping[str, Mapping[int, Sample]]) -> dict[str, Any]:
    """Name, digest (of every field of every sample), source, columns, and how many samples each scenario has."""
    seen = sha256()
    for scenario in sorted(samples):
        for number in sorted(samples[scenario]):
            seen.update(repr(samples[scenario][number]).encode())
    counts = {scenario: len(found) for scenario, found in sorted(samples.items())}
    return {
        "name": f"{name}: {', '.join(counts)}",
        "digest": seen.hexdigest()[:8],
        "source": {"uri": source},
        "schema": {"mlflow_colspec": [{"name": column, "type": "string", "required": True} for column in COLUMNS]},
        "profile": {"samples": sum(counts.values()), **counts},
    }
