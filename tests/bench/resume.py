"""Start-up of a resume with most of the paper planned and half of it stored.

``python -m tests.bench.resume FOLDER EPISODES`` makes a benchmark of the published size without pictures, stores every second
episode, and times what a driver does before its first lease: samples, plan, what is finished, what is pending, the schedule.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from actors.playing.play import Episode
from actors.playing.records import PlayedEpisode, episode_batch
from envs.samples import paper_ids
from envs.types import Ending
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import build
from tests.benchmark import repeat_lines


def published_size(folder: Path) -> Path:
    """Write seven JSONL files with all 7,557 kept ids of the paper."""
    return repeat_lines(folder / "large", paper_ids())


def table(data: Path, episodes: int) -> dict[str, Any]:
    """A sweep of about so many episodes under five conditions."""
    names = range(-(-episodes // (7557 * 5)))
    return {
        "name": "resume",
        "data": str(data),
        "model": [{"name": f"m{n}", "source": "builtin:uniform", "backend": "builtin", "gpus": 0} for n in names],
        "conditions": ["zero-shot", "hint", "history", "random-proactive", "reference"],
    }


def store_half(plan: Plan, folder: Path) -> None:
    """Every second episode, as if it had been played."""
    store, played = EpisodeStore(folder), list[PlayedEpisode]()
    for ordinal in range(0, plan.total, 2):
        index, sample = plan.task(ordinal)
        episode = Episode(plan.key(index, sample), sample, 0, (), Ending.WRONG, None, 0.0)
        played.append(PlayedEpisode(ordinal, plan.cells[index], episode))
        if len(played) == 5000:
            store.append(episode_batch(played))
            played = []
    store.append(episode_batch(played))
    store.close()


def main(folder: Path, episodes: int) -> None:
    sweep = build(table(published_size(folder), episodes), "resume.toml")
    store_half(build_plan(sweep), folder / "run")
    began = time.perf_counter()
    plan = build_plan(sweep)
    store = EpisodeStore(folder / "run")
    pending = plan.pending(store.finished_episodes()["key"])
    Scheduler(pending, {name: Demand(1, 0) for name in pending}, 2, 0).on_begin()
    seconds = time.perf_counter() - began
    store.close()
    pending_count = sum(map(len, pending.values()))
    print(json.dumps({"planned": plan.total, "finished": plan.total - pending_count, "seconds": seconds}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.resume")
    parser.add_argument("folder", type=Path, help="an empty folder for the benchmark and the run")
    parser.add_argument("episodes", type=int, help="about so many episodes are planned")
    main(**vars(parser.parse_args()))
