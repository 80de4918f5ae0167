"""The faults of a soak, drawn by a seed, and the drivers that they hit."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from orchestrator.object_store import run_location
from tests.chaos.ground import Ground, NoNodeStarted, parts
from tests.chaos.services import AWAY, Answerer
from tests.orchestrator.buckets import BUCKET, Service

PAUSE_S = (5.0, 25.0)
"""Between two faults."""
PATIENCE_S = 180.0
"""In which a second node of Ray must start."""
URL = f"s3://{BUCKET}/soak"
ENDS = 0.95
"""Share of the time after which no fault comes any more."""
DRIVERS = 1 / 4
"""Share of the time in which the driver itself is hit."""
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL}
"""Signals that the storm sends to no driver."""


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
        self.crashes: list[str] = []
        """What drivers wrote that ended in native code, with the stack that Ray has Python print; the next driver resumes."""
        self.steady: dict[str, Callable[[], None]] = {
            "a worker is killed": lambda: self._signal(signal.SIGKILL),
            "a worker hangs": lambda: self._signal(signal.SIGSTOP),
            "a node is removed and another one comes": lambda: self._node(True),
            "a raylet is killed and another node comes": lambda: self._node(False),
            "the driver stands still for 5 to 20 s": self._stand_still,
            "the bucket throttles": self._throttle,
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
        self.bucket.faults.clear()
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
            with self.log.open("a") as log:  # by a process that may still write when the driver's disk takes no more
                writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
            assert writer.stdin is not None
            command, streams = ("run", self.file, "--output", URL, *options), {"stdout": writer.stdin}
            self.process = self.ground.start(*command, **streams, stderr=subprocess.STDOUT)
            writer.stdin.close()

    def _reap(self) -> bool:
        """Whether the driver is gone; its exit code is counted, a traceback noted."""
        if self.process is None or self.process.poll() is None:
            return False
        self.codes[code := self.process.returncode] += 1
        self.process, log_text = None, self.log.read_text("utf-8", "replace")
        if -code in CRASHES:
            self.crashes.append(f"a driver ended by {signal.Signals(-code).name}: {log_text[-3000:]}")
        if "Traceback" in log_text:
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

    def _throttle(self) -> None:
        self.bucket.faults.throttled = lambda method, path: self.chance.random() < 0.5
        time.sleep(self.chance.uniform(5, 20))
        self.bucket.faults.clear()

    def _bucket_away(self) -> None:
        self.bucket.stop()
        time.sleep(self.chance.uniform(3, 15))
        self.bucket.back()

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
