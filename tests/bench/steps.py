"""Environment steps per second, ours and the package's, on the same samples and the same replies.

Run by an interpreter that can read the package (Python >= 3.12): ``python tests/bench/steps.py DATA ours|package ROUNDS``.
Both ask for the view, build the prompt's question, and read the reply; neither opens a picture. ``episodes`` plays as the
``uniform`` baseline does, so that it is the same work as the sweep's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from envs import SCENARIOS
from envs.samples import load_samples
from envs.types import Mode, Sample


def correct_replies(sample: Sample) -> list[str]:
    """Right suggestions up to the last turn, then the category: long episodes, every rule used."""
    game, replies = SCENARIOS[sample.scenario], []
    state = game.initial(sample)
    while state.ending is None:
        replies.append(game.solve(sample, state))
        state, _ = game.step(sample, state, replies[-1])
    return replies


def ours(work: list[tuple[Sample, list[str]]]) -> int:
    turns = 0
    for sample, replies in work:
        game = SCENARIOS[sample.scenario]
        state = game.initial(sample, Mode.PLAY)
        for reply in replies:
            game.view(sample, state, False)
            state, _ = game.step(sample, state, reply)
            turns += 1
    return turns


def package(work: list[tuple[str, dict[str, object], list[str]]], data: str) -> int:
    from proactivebench.environment import get_environment

    turns = 0
    for stem, entry, replies in work:
        env = get_environment(stem)(entry=entry, data_dir=data)
        for reply in replies:
            env.get_state(hint=False)
            env.evaluate_generated_answer(reply)
            turns += 1
    return turns


def main(data: str, side: str, rounds: int) -> None:
    samples = [sample for name in SCENARIOS for sample in load_samples(Path(data), name)]
    work = [(sample, correct_replies(sample)) for sample in samples]
    if side == "package":
        lines = {
            (name, entry["id"]): entry
            for name, game in SCENARIOS.items()
            for entry in map(json.loads, Path(data, f"{game.stem}_preprocessed.jsonl").read_text().splitlines())
        }
        package_work = [(SCENARIOS[s.scenario].stem, lines[s.scenario, s.id], replies) for s, replies in work]
    began, turns, episodes = time.perf_counter(), 0, 0
    for _ in range(rounds):
        turns += ours(work) if side == "ours" else package(package_work, data)
        episodes += len(work)
    seconds = time.perf_counter() - began
    print(json.dumps({"side": side, "turns": turns, "episodes": episodes, "seconds": seconds}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/bench/steps.py")
    parser.add_argument("data", help="folder of a demo benchmark")
    parser.add_argument("side", choices=["ours", "package"])
    parser.add_argument("rounds", type=int)
    main(**vars(parser.parse_args()))
