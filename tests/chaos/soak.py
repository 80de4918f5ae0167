"""A seeded storm over one sweep with services, a judge and a bucket; afterwards all must look as if nothing had happened.

``python -m tests.chaos.soak HOURS [SEED]`` (``make soak HOURS=1``): in the first quarter the driver itself is hit too, then
one driver lives through everything else, so that growth of its memory and handles shows. Exit code 1 if anything is amiss.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from orchestrator.object_store import run_location
from orchestrator.object_store.bucket import CACHE, Bucket
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from tests.benchmark import copy_benchmark
from tests.chaos.ground import Ground, command_lines, parent, tally
from tests.chaos.growth import Recorder, table
from tests.chaos.services import REPLIES, VERDICTS, Answerer, answering
from tests.chaos.storm import URL, Storm
from tests.conftest import ENVIRONMENT
from tests.orchestrator.buckets import service as bucket_service

SILENCE_S = 60
FAULTY = 0.03
"""Share of the services' answers."""


def sweep(path: Path, data: Path, writers: Answerer, steady: Answerer, judge: Answerer) -> Path:
    """Four models of a service on a fake GPU each, one that lasts the whole time, policies, and a judge who is a service."""

    def entry(name: str, address: Answerer, in_flight: int, gpus: int) -> str:
        assert address.service is not None
        served = f'base_url = "{address.service.url}", key_env = "", deadline = 15, patience = 600'
        size = f"gpus = {gpus}\nin_flight = {in_flight}"
        return f'[[model]]\nname = "{name}"\nsource = "{name}"\n{size}\nendpoint = {{ {served} }}\n'

    policy = '[[model]]\nname = "u{}"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 1\n'
    text = (
        f'# A test.\nname = "soak"\ndata = "{data}"\nconditions = ["zero-shot", "hint"]\nprotocols = ["mcqa", "oeg"]\n'
        f"cluster = {{ silence = {SILENCE_S} }}\n[judge]\nattempts = 2\ngold_check = false\n"
        + entry("reader", judge, 4, 0).replace("[[model]]", "[judge.model]")
        + "".join(entry(f"served{n}", writers, 4, 1) for n in range(4))
        + entry("steady", steady, 2, 0)
        + "".join(policy.format(n) for n in range(6))
    )
    path.write_text(text)
    return path


def list_processes(ground: Ground, storm: Storm) -> Iterator[tuple[int, str]]:
    """The driver, its MLflow process, and every worker, by pid."""
    driver = storm.driver()
    if driver:
        yield driver, "driver"
    for pid, line in command_lines():
        if line.startswith(b"ray::Worker"):
            yield pid, "worker"
        elif driver and parent(pid) == driver and b"orchestrator.tracking.process" in line:
            yield pid, "MLflow process"


def outcome(storm: Storm, baseline: Path) -> tuple[list[str], bool]:
    """What is stored, read from the bucket alone, beside an undisturbed run."""
    view = run_location.readable_folder(URL)
    planned = episodes(baseline).select(pl.len()).collect().item()
    stored, twice = tally(storm.out)
    in_bucket = episodes(view).select("key", "ending").collect()
    answered = in_bucket.filter(ending="answered").height
    read = verdicts(view).select("key").collect()["key"]
    same = Bucket(URL).read("results.json") == (baseline / "results.json").read_bytes()
    orphans = storm.ground.orphans()
    lines = [
        f"planned {planned:,}, stored {stored:,}, in the bucket {in_bucket.height:,}, twice {twice}",
        f"answers {answered:,}, verdicts {len(read):,}, of different answers {read.n_unique():,}",
        f"results.json as undisturbed: {'yes' if same else 'NO'}; orphans {len(orphans)}; lock {Bucket(URL).read('lock')}",
    ]
    right = planned == stored == in_bucket.height and not twice and len(read) == read.n_unique() == answered
    return lines, right and same and not orphans and Bucket(URL).read("lock") is None


def main(hours: float, seed: int = 0) -> int:
    """Play the sweep undisturbed, then in the storm, and compare; the exit code."""
    scratch = Path(tempfile.mkdtemp(prefix="soak-"))
    os.environ.update({**ENVIRONMENT, "RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"})
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line a request
    os.environ[CACHE] = str(scratch / "cache")
    copy_benchmark(scratch / "data", per_scenario=max(10, round(30 * min(1.0, hours))))
    with ExitStack() as stack:
        bucket = stack.enter_context(bucket_service())
        kinds = (("writers", REPLIES), ("steady", REPLIES), ("judge", VERDICTS))
        served = [stack.enter_context(answering(name, texts, seed)) for name, texts in kinds]
        file = sweep(scratch / "soak.toml", scratch / "data", *served)
        ground = Ground()
        stack.callback(ground.close)
        baseline = play_undisturbed(ground, file, scratch / "whole", served)
        for answerer in served:
            answerer.share = FAULTY
            answerer.pace(answerer.asked, hours * 3600)
        storm = Storm(ground, file, scratch, seed, served, bucket)
        with Recorder(lambda: list_processes(ground, storm)) as recorder:
            storm.blow(hours * 3600)
            storm.finish()
        lines, right = outcome(storm, baseline)
        growth, flat = table(recorder.judged())
    right = right and flat and 0 in storm.codes and not storm.problems
    print(
        f"\nsoak of {hours:g} h, seed {seed}",
        *list_faults(storm),
        *lines,
        *growth,
        *storm.problems,
        *storm.crashes,
        sep="\n",
    )
    print("no growth" if growth and flat else "memory or handles GROW" if growth else "too short to judge growth")
    print("all is as undisturbed" if right else f"NOT as undisturbed; see {scratch}")
    if right:
        shutil.rmtree(scratch)
    return 0 if right else 1


def play_undisturbed(ground: Ground, file: Path, folder: Path, served: list[Answerer]) -> Path:
    """The sweep as it is when nothing goes wrong; the services count their requests."""
    began = time.monotonic()
    done = ground.run("run", file, "--output", folder, "--tracking-uri", "none", timeout=3600)
    assert done.returncode == 0, done.stderr
    print(
        f"undisturbed: {time.monotonic() - began:.0f} s, requests {[answerer.asked for answerer in served]}", flush=True
    )
    return folder


def list_faults(storm: Storm) -> list[str]:
    """The faults and how often each was played, and how drivers ended."""
    odd: Counter[str] = sum((answerer.played for answerer in storm.served), Counter())
    faults = [f"{count:>6}  {name}" for name, count in storm.played.most_common()]
    return [
        *faults,
        f"{odd.total():>6}  odd answers of services, of {len(odd)} kinds",
        f"exit codes of drivers: {dict(storm.codes)}",
    ]


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), *map(int, sys.argv[2:3])))
