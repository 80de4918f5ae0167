"""The folder drawn for (samples, seed) is the same to the byte and there whole or not at all.

The published filter keeps exactly ``samples`` of its lines.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from PIL import Image

from envs.demo.blocks import blocks
from envs.demo.camera import camera
from envs.demo.conveyor import conveyor
from envs.demo.entries import STEMS, DemoSample, published_ids
from envs.demo.passerby import passerby, weak_passerby
from envs.demo.quality import quality
from envs.demo.sketches import sketch
from envs.demo.turntable import turntable

SCENARIOS: dict[str, Callable[[int, int], DemoSample]] = {
    "ROD": blocks,
    "VSOD": passerby,
    "MVP-N": turntable,
    "IN-C": quality,
    "QD": sketch,
    "CIT": conveyor,
    "COCO": camera,
}
"""Scenario -> (index, seed) -> sample, in the order of the paper's tables."""
WEAK_SHARE = 6
"""One VSOD sample that the filter drops is added for so many that it keeps, or a part of so many."""


def draw_sample(scenario: str, index: int, seed: int) -> DemoSample:
    """One sample in memory, nothing on disk: the ``index``-th of the scenario, from 0 and as many as are wanted.

    Past the last id that the published filter keeps, ids repeat and pictures do not. Raises KeyError for an unknown
    scenario.
    """
    return SCENARIOS[scenario](index, seed)


def samples_per_scenario(samples: int, scenarios: Collection[str] = SCENARIOS) -> dict[str, int]:
    """Samples per scenario, as even as the ids that the filter keeps allow.

    Raises ValueError for a number below 1 or above the ids there are (7,557 in all seven), and for an unknown scenario.
    """
    if unknown := [name for name in scenarios if name not in SCENARIOS]:
        raise ValueError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    room = {name: len(published_ids()[name]) for name in SCENARIOS if name in scenarios}
    if not 1 <= samples <= sum(room.values()):
        most = f"{sum(room.values()):,}"
        raise ValueError(f"samples is {samples}, but the demo draws 1 to {most}: the filter keeps no more ids.")
    counts, owed = dict.fromkeys(room, 0), samples
    while owed:
        open_names = [name for name in room if counts[name] < room[name]]
        share, rest = divmod(owed, len(open_names))
        for place, name in enumerate(open_names):
            given = min(share + (place < rest), room[name] - counts[name])
            counts[name] += given
            owed -= given
    return counts


def draw(folder: Path, samples: int, seed: int, scenarios: Collection[str] = SCENARIOS) -> dict[str, int]:
    """Writes a benchmark of ``samples`` samples in the published format; returns the samples per scenario.

    A few VSOD lines more are written that the published filter drops. Raises ValueError for an impossible number and
    for a folder that holds something already.
    """
    counts, folder = samples_per_scenario(samples, scenarios), folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty: name a new folder for the demo benchmark, or remove this one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for scenario, count in counts.items():
            write(partial, scenario, _samples(scenario, count, seed))
        partial.chmod(0o755)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return counts


def _samples(scenario: str, count: int, seed: int) -> Iterator[DemoSample]:
    for index in range(count):
        yield draw_sample(scenario, index, seed)
        if scenario == "VSOD" and index % WEAK_SHARE == 0:
            yield weak_passerby(index // WEAK_SHARE, seed)


def save(picture: Image.Image, target: Path) -> None:
    """Sketches are grey PNG, all else JPEG."""
    if target.suffix == ".png":
        picture.convert("L").save(target)
    else:
        picture.save(target, "JPEG", quality=88)


def write(folder: Path, scenario: str, drawn: Iterator[DemoSample]) -> None:
    """Writes the scenario's pictures, and its lines in the order of their ids."""
    lines: dict[int, str] = {}
    for one in drawn:
        lines[one.entry["id"]] = json.dumps(one.entry)
        for path, picture in one.frames.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            save(picture, target)
    if lines:
        text = "".join(f"{lines[number]}\n" for number in sorted(lines))
        (folder / f"{STEMS[scenario]}_preprocessed.jsonl").write_text(text, "utf-8")
