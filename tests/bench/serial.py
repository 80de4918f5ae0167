"""The package's own loop, one episode after another, with a policy that answers at once: what a researcher writes first.

``python tests/bench/serial.py DATA EPISODES`` under an interpreter that can read the package (Python >= 3.12).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2]))

from envs import SCENARIOS
from envs.samples import load_samples
from envs.stimulus import multiple_choice


def main(data: str, episodes: int) -> None:
    from proactivebench.environment import get_environment

    lines = [
        (game.stem, entry)
        for name, game in SCENARIOS.items()
        for kept_ids in [{sample.id for sample in load_samples(Path(data), name)}]
        for entry in map(json.loads, Path(data, f"{game.stem}_preprocessed.jsonl").read_text().splitlines())
        if entry["id"] in kept_ids and entry.get("strong_occlusions") is not False
    ]
    rng, turns, began = Random(0), 0, time.perf_counter()
    for number, (stem, entry) in enumerate(islice(cycle(lines), episodes)):
        env = get_environment(stem)(entry=entry, data_dir=data, reference=number % 4 == 3)
        while not env.stop:
            state = env.get_state(hint=number % 4 == 1)
            multiple_choice(state["prompt"], tuple(state["options"]))
            env.evaluate_generated_answer(rng.choice(state["options"]))
            turns += 1
    print(json.dumps({"episodes": episodes, "turns": turns, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/bench/serial.py")
    parser.add_argument("data", help="folder of a benchmark")
    parser.add_argument("episodes", type=int)
    main(**vars(parser.parse_args()))
