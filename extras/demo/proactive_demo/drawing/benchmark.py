"""Draws the demo benchmark: equal numbers and seeds give equal bytes, and a failed draw leaves no folder.

The published filter keeps exactly ``samples`` of its lines.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from proactive_demo.drawing.blocks import blocks
from proactive_demo.drawing.camera import camera
from proactive_demo.drawing.conveyor import conveyor
from proactive_demo.drawing.entries import STEMS, DemoSample, published_ids
from proactive_demo.drawing.passerby import passerby, weak_passerby
from proactive_demo.drawing.quality import quality
from proactive_demo.drawing.sketches import sketch
from proactive_demo.drawing.turntable import turntable

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
"""Kept VSOD samples for each additional one that the published filter drops."""


def draw_sample(scenario: str, index: int, seed: int) -> DemoSample:
    """Draw the ``index``-th sample of a scenario, in memory. After the last published id, ids repeat, but pictures do not."""
    return SCENARIOS[scenario](index, seed)


def samples_per_scenario(samples: int, scenarios: Collection[str] = SCENARIOS) -> dict[str, int]:
    """Return the number of samples per scenario, as even as the published ids (7,557 in all) allow.

    Raises ValueError for an impossible number or an unknown scenario.
    """
    if unknown := [name for name in scenarios if name not in SCENARIOS]:
        raise ValueError(f"there is no scenario {unknown[0]!r}; {', '.join(SCENARIOS)} exist")
    capacity = {name: len(published_ids()[name]) for name in SCENARIOS if name in scenarios}
    total = sum(capacity.values())
    if not 1 <= samples <= total:
        raise ValueError(
            f"samples is {samples}, but the demo draws 1 to {total:,}, because the published filter keeps no more."
        )
    counts = dict.fromkeys(capacity, 0)
    while remaining := samples - sum(counts.values()):
        open_names = [name for name in capacity if counts[name] < capacity[name]]
        share, rest = divmod(remaining, len(open_names))
        for rank, name in enumerate(open_names):
            counts[name] = min(counts[name] + share + (rank < rest), capacity[name])
    return counts


def draw(folder: Path, samples: int, seed: int, scenarios: Collection[str] = SCENARIOS) -> dict[str, int]:
    """Write a benchmark of ``samples`` samples in the published format, and return the samples per scenario.

    It also writes a few VSOD lines that the published filter drops. Raises ValueError for an impossible number and
    for a folder that is not empty.
    """
    counts, folder = samples_per_scenario(samples, scenarios), folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty: name a new folder for the demo benchmark, or remove this one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for scenario, count in counts.items():
            _write(partial, scenario, _samples(scenario, count, seed))
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


def _write(folder: Path, scenario: str, samples: Iterator[DemoSample]) -> None:
    """Write the scenario's pictures (sketches as grey PNG, others as JPEG), and its lines in the order of their ids."""
    lines: dict[int, str] = {}
    for sample in samples:
        lines[sample.entry["id"]] = json.dumps(sample.entry)
        for path in sample.views:
            target, picture = folder / path, sample.picture(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.suffix == ".png":
                picture.convert("L").save(target)
            else:
                picture.save(target, "JPEG", quality=88)
    if lines:
        text = "".join(f"{lines[number]}\n" for number in sorted(lines))
        (folder / f"{STEMS[scenario]}_preprocessed.jsonl").write_text(text, "utf-8")
