"""Collects the suggestions that a data folder holds, for random-proactive to draw from.

Equal folders give equal collections, whichever scenarios a sweep plays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from envs import SCENARIOS
from envs.samples import lines_file, read_samples
from envs.scenario import suggestions
from envs.types import Sample


def with_suggestion_pool(samples: Sequence[Sample], folder: Path) -> list[Sample]:
    """The samples, each with the suggestions of all scenarios that the folder has: what random-proactive draws from."""
    known = folder_suggestions(folder)
    return [replace(sample, suggestion_pool=known) for sample in samples]


def folder_suggestions(folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Scenario -> its suggestions in the folder, each once, sorted; files that are not there and bad lines are passed over."""
    files = [lines_file(folder, name) for name in SCENARIOS]
    there = tuple((str(file), *_stamp(file)) for file in files if file.is_file())
    return _known_suggestions(str(folder), there)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=4)
def _known_suggestions(folder: str, there: tuple[tuple[str, int, int], ...]) -> Mapping[str, tuple[str, ...]]:
    found = {}
    names = {str(lines_file(Path(folder), name)): name for name in SCENARIOS}
    for path, _, _ in there:
        samples, _ = read_samples(Path(folder), names[path])
        found[names[path]] = tuple(sorted({ask for sample in samples for ask in suggestions(sample.options)}))
    return found
