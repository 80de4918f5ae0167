"""Prints all that happens in simulated runs: ``python -m tests.simulation.event_log SEED...``, the same in every process."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from tests.simulation.__main__ import failure, new_world
from tests.simulation.observed import ObservedDriver
from tests.simulation.schedule import draw
from tests.simulation.simulated_bucket import SimulatedBucket
from tests.simulation.simulated_disk import SimulatedDisk
from tests.simulation.world import World

CHANCE = re.compile(r"in use by .*|(?<=control/)(\d+-)[0-9a-f]{12}")
"""What a process adds by itself: the time of day of its start, and the random end of a command's name."""


@contextmanager
def recorded(world: World) -> Iterator[list[str]]:
    """Yield the list of disk operations, changes of the bucket and commands of the scheduler in a block."""
    lines: list[str] = []

    def record(owner: type, name: str, describe: Callable[..., str]) -> None:
        real = getattr(owner, name)

        def recording(self: Any, *arguments: Any) -> Any:
            lines.append(f"{world.clock.now:.6f} {describe(*arguments)}")
            return real(self, *arguments)

        patches.enter_context(mock.patch.object(owner, name, recording))

    with ExitStack() as patches:
        record(SimulatedDisk, "_count", lambda kind: kind)
        record(SimulatedBucket, "put", lambda name, content: f"put {name}")
        record(SimulatedBucket, "remove", lambda name: f"remove {name}")
        record(ObservedDriver, "act", lambda commands: f"{commands}")
        yield lines


def print_log(seeds: list[int]) -> None:
    """Play seeds and print what happens."""
    with new_world() as world, recorded(world) as lines:
        for seed in seeds:
            world.undisturbed(seed)
            lines.clear()
            reason = failure(world, draw(seed))
            text = "\n".join([f"seed {seed}: {reason or 'plays'}", *world.trace, *lines])
            print(CHANCE.sub(r"\1", text.replace(str(world.scratch), "")))


if __name__ == "__main__":
    print_log([int(seed) for seed in sys.argv[1:]])
