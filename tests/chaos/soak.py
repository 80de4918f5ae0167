"""A seeded storm over one sweep with services, a judge and a bucket; afterwards all must look as if nothing had happened.

``python -m tests.chaos.soak HOURS [SEED]`` (``make soak HOURS=1``): in the first quarter the driver itself is hit too, then
one driver lives through everything else, so that growth of its memory and handles shows. Exit code 1 if anything is amiss.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from envs.demo import draw
from orchestrator.object_store import run_location
from orchestrator.object_store.bucket import CACHE, Bucket
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts
from tests.chaos.ground import Ground, NoNodeStarted, command_lines, parent, parts, tally
from tests.chaos.growth import Recorder, table
from tests.chaos.services import AWAY, REPLIES, VERDICTS, Answerer, answering
from tests.conftest import ENVIRONMENT
from tests.orchestrator.buckets import BUCKET, Faults, Service
from tests.orchestrator.buckets import service as bucket_service

SILENCE_S = 60
PAUSE_S = (5.0, 25.0)
"""Between two faults."""
PATIENCE_S = 180.0
"""In which a second node of Ray must start."""
FAULTY = 0.03
"""Share of the services' answers."""
URL = f"s3://{BUCKET}/soak"
ENDS = 0.95
"""Share of the time after which no fault comes any more."""
DRIVERS = 1 / 4
"""Share of the time in which the driver itself is hit."""


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


class Storm:
    """One sweep in a bucket, and what is done to it."""

    def __init__(self, ground: Ground, file: Path, scratch: Path, seed: int, served: list[Answerer], bucket: Service):
        self.ground, self.file, self.chance, self.served, self.bucket = (
            ground,
            file,
            random.Random(seed),
            served,
            bucket,
        )
        self.log = scratch / "driver.txt"
        self.process: subprocess.Popen[str] | None = None
        self.played: Counter[str] = Counter()
        self.codes: Counter[int] = Counter()
        """Exit codes of drivers."""
        self.problems: list[str] = []
        self.steady: dict[str, Callable[[], None]] = {
            "a worker is killed": lambda: self._signal(signal.SIGKILL),
            "a worker hangs": lambda: self._signal(signal.SIGSTOP),
            "a node is removed and another one comes": lambda: self._node(True),
            "a raylet is killed and another node comes": lambda: self._node(False),
            "the driver stands still for 5 to 20 s": self._stand_still,
            "the bucket throttles": lambda: self._bucket("throttled", lambda method, path: self.chance.random() < 0.5),
            "the bucket forgets writes": lambda: self._bucket("lost", lambda path: self.chance.random() < 0.3),
            "the bucket lists late": lambda: self._bucket("stale", True),
            "the bucket is away": self._bucket_away,
            "a model's service is away": lambda: self._away(self.chance.choice(self.served[:2])),
            "the judge's service is away": lambda: self._away(self.served[2]),
            "a second driver is started": self._second_driver,
            "status or report reads meanwhile": self._read,
        }
        self.deadly: dict[str, Callable[[], None]] = {
            "the driver is killed": lambda: self._end(signal.SIGKILL),
            "the driver is asked to stop": lambda: self._end(signal.SIGTERM),
            "the driver's disk takes no more": self._full_disk,
            "a part is damaged between two drivers": self._damage,
            "the driver's machine is lost": self._lose_machine,
        }

    @property
    def out(self) -> Path:
        return run_location.cache_folder(URL, "run")

    def blow(self, seconds: float) -> None:
        """Faults for so long, or until the sweep ends by itself."""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < ENDS * seconds and 0 not in self.codes:
            self._start()
            time.sleep(self.chance.uniform(*PAUSE_S))
            if self._reap():
                continue
            faults = {**self.steady, **(self.deadly if elapsed < DRIVERS * seconds else {})}
            name = self.chance.choice(list(faults))
            print(f"{elapsed:>6.0f} s  {len(parts(self.out)):>4} parts  {name}", flush=True)
            faults[name]()
            self.played[name] += 1

    def finish(self) -> None:
        """No more faults: the same command until all is complete; what a storm made fail is asked for again."""
        self._clear()
        for options in ((), (), ("--retry", "failed"), ("--retry", "failed"), ()):
            self._start(*options)
            assert self.process is not None
            self.process.wait(1200)
            self._reap()
            if 0 in self.codes:
                return

    def driver(self) -> int:
        """Pid of the living driver, or 0."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else 0

    def _start(self, *options: str) -> None:
        if not self.driver() and 0 not in self.codes:
            with self.log.open("a") as log:
                self.process = self.ground.start("run", self.file, "--output", URL, *options, stdout=log, stderr=log)

    def _reap(self) -> bool:
        """Whether the driver is gone; its exit code is counted, a traceback noted."""
        if self.process is None or self.process.poll() is None:
            return False
        self.codes[self.process.returncode] += 1
        self.process = None
        if "Traceback" in (log_text := self.log.read_text("utf-8", "replace")):
            self.problems.append(log_text[-3000:])
        return True

    # -- workers and nodes ---------------------------------------------------------------------------------------------
    def _signal(self, number: int) -> None:
        workers = sorted(self.ground.workers())
        if workers:
            os.kill(self.chance.choice(workers), number)

    def _node(self, gracefully: bool) -> None:
        self.ground.remove_second(gracefully)
        time.sleep(self.chance.uniform(0.0, 2.0))
        try:
            self.ground.restore_second(PATIENCE_S)
        except (NoNodeStarted, TimeoutError) as problem:  # the sweep has one node till the next try
            print(f"        no second node: {problem}", flush=True)

    # -- services and bucket -------------------------------------------------------------------------------------------
    def _away(self, answerer: Answerer) -> None:
        answerer.leave(self.chance.choice(list(AWAY)), self.chance.uniform(3, 15))

    def _bucket(self, fault: str, how: object) -> None:
        setattr(self.bucket.faults, fault, how)
        time.sleep(self.chance.uniform(5, 20))
        self._clear()

    def _bucket_away(self) -> None:
        self.bucket.stop()
        time.sleep(self.chance.uniform(3, 15))
        self.bucket.back()

    def _clear(self) -> None:
        fresh = Faults()
        for name in ("throttled", "lost", "stale"):
            setattr(self.bucket.faults, name, getattr(fresh, name))
        self.bucket.faults.listings = {}

    def _second_driver(self) -> None:
        done = self.ground.run("run", self.file, "--output", URL)
        self._expect("a second driver", done, (2,) if self.driver() else (0, 1, 2))

    def _read(self) -> None:
        command = self.chance.choice([("status", URL), ("report", URL, "--brief")])
        self._expect(command[0], self.ground.run(*command), (0, 2))

    def _expect(self, what: str, done: subprocess.CompletedProcess[str], codes: tuple[int, ...]) -> None:
        if done.returncode not in codes or "Traceback" in done.stderr:
            self.problems.append(f"{what} ended with {done.returncode}: {done.stderr[-2000:]}")

    # -- the driver ----------------------------------------------------------------------------------------------------
    def _stand_still(self) -> None:
        pid = self.driver()
        if pid:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.chance.uniform(5, 20))
            os.kill(pid, signal.SIGCONT)

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(120)
            self._reap()

    def _full_disk(self) -> None:
        pid = self.driver()
        if pid:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, 4096))
            assert self.process is not None
            self.process.wait(300)
            self._reap()

    def _damage(self) -> None:
        self._end(signal.SIGKILL)
        victims = [
            path for name in ("episodes", "turns", "verdicts") for path in sorted((self.out / name).glob("*.parquet"))
        ]
        if victims:
            victim = self.chance.choice(victims)
            raw = bytearray(victim.read_bytes())
            offset = self.chance.randrange(max(1, len(raw) - 16))
            raw[offset : offset + 16] = self.chance.randbytes(16)
            victim.write_bytes(bytes(raw))

    def _lose_machine(self) -> None:
        """The bucket alone is left."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.out.parent, ignore_errors=True)


def list_processes(ground: Ground, storm: Storm) -> Iterator[tuple[int, str]]:
    """The driver, its MLflow process, and every worker, by pid."""
    driver = storm.driver()
    if driver:
        yield driver, "driver"
    for pid, line in command_lines():
        if line.startswith(b"ray::Worker"):
            yield pid, "worker"
        elif driver and parent(pid) == driver and b"mlflow" in line:
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
    draw(scratch / "data", samples=7 * max(10, round(30 * min(1.0, hours))), seed=0)
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
    print(f"\nsoak of {hours:g} h, seed {seed}", *list_faults(storm), *lines, *growth, *storm.problems, sep="\n")
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
