"""A seeded storm: faults drawn at random hit one sweep until it is complete; then it must look as if nothing had happened.

``python -m tests.chaos.soak SEED [ROUNDS]`` (``make chaos SEED=3 ROUNDS=8``) prints every fault and the outcome; exit code 1
if an episode is missing or there twice, the results differ from an undisturbed run, or a process is left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from envs.demo import draw
from tests.chaos.ground import PLANNED, Ground, ended, parts, sweep, tally
from tests.conftest import ENVIRONMENT


class Storm:
    """One sweep, and what is done to it."""

    def __init__(self, ground: Ground, file: Path, out: Path, seed: int) -> None:
        self.ground, self.file, self.out, self.chance = ground, file, out, random.Random(seed)
        self.process: subprocess.Popen[str] | None = None
        self.faults: list[tuple[str, Callable[[], None]]] = [
            ("a worker is killed", lambda: self._signal(signal.SIGKILL)),
            ("a worker hangs", lambda: self._signal(signal.SIGSTOP)),
            ("the driver is killed", lambda: self._end(signal.SIGKILL)),
            ("the driver is asked to stop", lambda: self._end(signal.SIGTERM)),
            ("a part is damaged", self._damage),
            ("a node is removed and another one comes", lambda: self._node(True)),
            ("a raylet is killed and another node comes", lambda: self._node(False)),
        ]

    def blow(self, rounds: int) -> str:
        """So many faults, or until the sweep ends by itself; then the same command until it is complete."""
        for _ in range(rounds):
            self._start()
            if not self._on_its_way():
                break
            name, fault = self.chance.choice(self.faults)
            print(f"  {len(parts(self.out)):>3} parts  {name}", flush=True)
            fault()
            time.sleep(self.chance.uniform(0.2, 1.5))
        for _ in range(5):
            self._start()
            assert self.process is not None
            done = ended(self.process)
            if done.returncode == 0:
                return ""
        return f"not complete: exit code {done.returncode}\n{done.stderr[-2000:]}"

    def _start(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.process = self.ground.start("run", self.file, "--output", self.out, "--set", "cluster.silence=5")

    def _on_its_way(self) -> bool:
        """Whether a new part is durable before the sweep ends."""
        assert self.process is not None
        before, deadline = len(parts(self.out)), time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            if len(parts(self.out)) > before:
                return True
            time.sleep(0.05)
        return self.process.poll() is None

    def _signal(self, number: int) -> None:
        workers = sorted(self.ground.workers())
        if workers:
            os.kill(self.chance.choice(workers), number)

    def _end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate()

    def _damage(self) -> None:
        self._end(signal.SIGKILL)
        victims = [
            path for table in ("episodes", "turns") for path in sorted((self.out / table).glob("part-*.parquet"))
        ]
        victim = self.chance.choice(victims)
        raw = bytearray(victim.read_bytes())
        place = self.chance.randrange(max(1, len(raw) - 16))
        raw[place : place + 16] = self.chance.randbytes(16)
        victim.write_bytes(bytes(raw))

    def _node(self, gracefully: bool) -> None:
        self.ground.remove_second(gracefully)
        time.sleep(self.chance.uniform(0.0, 2.0))
        self.ground.restore_second()


def main(seed: int, rounds: int = 6) -> int:
    os.environ.update({**ENVIRONMENT, "RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"})
    with tempfile.TemporaryDirectory() as folder:
        data, whole, out = Path(folder, "data"), Path(folder, "whole"), Path(folder, "storm")
        draw(data, samples=70, seed=0)
        file = sweep(Path(folder, "storm.toml"), data)
        ground = Ground()
        try:
            done = ground.run("run", file, "--output", whole)
            assert done.returncode == 0, done.stderr
            began, storm = time.monotonic(), Storm(ground, file, out, seed)
            problem = storm.blow(rounds)
            stored, twice = tally(out)
            same = not problem and (out / "results.json").read_bytes() == (whole / "results.json").read_bytes()
            left = ground.orphans()
        finally:
            ground.close()
    print(
        f"seed {seed}: planned {PLANNED:,}, stored {stored:,}, twice {twice}, same results {'yes' if same else 'NO'},"
        f" orphans {len(left)}, {time.monotonic() - began:.0f} s {problem}"
    )
    return 0 if (stored, twice, same, left) == (PLANNED, 0, True, []) else 1


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:3])))
