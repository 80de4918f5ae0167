"""A benchmark with more samples than the demo: the demo's lines under published ids, with the same pictures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from envs import SCENARIOS
from envs.samples import paper_ids


def wide(demo_data: Path, folder: Path, limit: int = 60) -> Path:
    """Write up to ``limit`` samples per scenario (VSOD has 42), made of the demo's ten."""
    shutil.copytree(demo_data, folder)
    for name, scenario in SCENARIOS.items():
        file = folder / f"{scenario.stem}_preprocessed.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [line for line in lines if line.get("strong_occlusions") is not False]
        entries = [
            {**lines[n % len(lines)], "id": sample_id} for n, sample_id in enumerate(sorted(paper_ids()[name])[:limit])
        ]
        file.write_text("\n".join(map(json.dumps, entries)) + "\n")
    return folder
