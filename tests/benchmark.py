"""The stored benchmark that tests play: ten drawn samples a scenario, in the published format.

``python -m proactive_demo.stored_benchmark`` rewrites it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from envs import SCENARIOS
from envs.samples import lines_file, paper_ids

STORED = Path(__file__).with_name("data") / "benchmark"


def copy_benchmark(folder: Path, per_scenario: int = 10, scenarios: Collection[str] = SCENARIOS) -> Path:
    """Write a benchmark with the first published ids of each scenario; after ten samples a scenario, contents repeat."""
    ids = {name: sorted(paper_ids()[name])[:per_scenario] for name in scenarios}
    repeat_lines(folder, ids)
    for pictures in STORED.iterdir():
        if pictures.is_dir():
            shutil.copytree(pictures, folder / pictures.name)
    return folder


def repeat_lines(folder: Path, ids: Mapping[str, Iterable[int]]) -> Path:
    """Write the stored lines without pictures, repeated under these ids by scenario."""
    folder.mkdir(parents=True)
    for name, numbers in ids.items():
        stored = [json.loads(line) for line in lines_file(STORED, name).read_text().splitlines()]
        lines = [line for line in stored if line.get("strong_occlusions") is not False]
        entries = [{**lines[n % len(lines)], "id": number} for n, number in enumerate(sorted(numbers))]
        lines_file(folder, name).write_text("\n".join(map(json.dumps, entries)) + "\n")
    return folder
