"""Planted truths through the report's own functions, each with its target.

    python -m tests.bench.planted [RUNS] [SEED]

Every run draws a truth, plants episodes or verdicts from it, and asks whether the printed interval contains the truth. No
model is loaded and no file is read or written. Seeds are fresh unless one is given; it is printed, so that a table can be
repeated. Each figure stands beside its target with its Monte Carlo error. Exit code 1 if a target is missed: by more than three
errors, or with 10,000 draws at all. Stops by ``[precision]`` have a command of their own,
``tests.bench.planted_stopping``.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator

import numpy as np

from tests.bench.planted_changes import change_lines, family_lines, order_lines, power_of_change_lines, share_lines
from tests.bench.planted_evidence import (
    Planted,
    active_label_lines,
    cluster_lines,
    equivalence_lines,
    flip_lines,
    judge_lines,
    missing_lines,
    refused_ranking_lines,
)

RUNS = 200
TABLES: tuple[Callable[[int, np.random.Generator], Iterator[Planted]], ...] = (
    change_lines,
    power_of_change_lines,
    share_lines,
    family_lines,
    order_lines,
    missing_lines,
    refused_ranking_lines,
    cluster_lines,
    judge_lines,
    active_label_lines,
    equivalence_lines,
    flip_lines,
)


def print_planted(runs: int = RUNS, seed: int | None = None) -> bool:
    """Print every line; return True if all targets are reached."""
    seed = secrets.randbits(32) if seed is None else seed
    print(f"seed {seed}, {runs} runs")
    reached = True
    for table in TABLES:
        for planted in table(runs, np.random.default_rng(seed)):
            mark = "" if planted.reached else "  MISSED"
            print(f"{planted.what:<90} {planted.target:>14} {planted.result:>20}{mark}", flush=True)
            reached &= planted.reached
    return reached


if __name__ == "__main__":
    sys.exit(0 if print_planted(*map(int, sys.argv[1:])) else 1)
