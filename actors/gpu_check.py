"""An engine starts only on the devices that Ray gave its worker, of the kind asked for, with their memory free.

The processes of a killed engine take a while to end; an engine that measures memory meanwhile refuses to start. So
leftovers are waited for, and named when they stay. Figures come from ``nvidia-smi``, which reads the driver's counters:
a CUDA context in this process would take memory itself, and break forked children.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

MAX_WAIT_S = 120.0
"""Seconds that another engine's leftovers are waited for."""
POLL_INTERVAL_S = 2.0
"""Seconds between two looks."""
GIB = 2**30


class DeviceProblem(RuntimeError):
    """What is wrong with a worker's devices, as one sentence; another worker elsewhere may fare better."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as its driver counts it."""

    index: str
    uuid: str
    kind: str
    """As the driver names it, for example ``NVIDIA H200``."""
    free: int
    total: int
    """Bytes."""
    holders: tuple[tuple[int, int], ...] = ()
    """Pid and bytes of each process that has memory there, as far as the driver tells (in a container it may not)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model asks of its worker's devices."""

    model: str
    gpus: int
    accelerator: str = ""
    """As Ray names it (``H200``, ``A100-80G``); empty takes any."""
    share: float = 0.0
    """Part of each device's memory that must be free,"""
    size: int = 0
    """or bytes of it, whichever is more."""

    def needs(self, device: Device) -> int:
        """Bytes that must be free there; never more than there are."""
        return min(device.total, max(int(self.share * device.total), self.size))


Measure = Callable[[], Sequence[Device]]


def check(
    asked: Asked,
    given: Sequence[object],
    named: str | None,
    measure: Measure | None = None,
    patience: float = MAX_WAIT_S,
    pause: float = POLL_INTERVAL_S,
) -> Iterator[str]:
    """Lines for the log as each thing is settled; raises DeviceProblem when a worker must not start here.

    ``given``: the ids that Ray gave; ``named``: CUDA_VISIBLE_DEVICES. Without a driver the ids are compared, nothing else.
    """
    ids = _ids(asked, [str(one) for one in given], named)
    try:
        devices = _found(asked, ids, (measure or from_driver)())
    except Unmeasurable as reason:
        yield f"GPUs {','.join(ids)}: {reason}, so kind and memory are not checked"
        return
    _of_kind(asked, devices)
    give_up = monotonic() + patience
    told = False
    while lacking := [device for device in devices if device.free < asked.needs(device)]:
        if monotonic() >= give_up:
            raise DeviceProblem(_lack(asked, lacking[0], patience))
        if not told:
            yield f"waiting up to {patience:.0f} s for memory: {_held(lacking[0])}"
            told = True
        sleep(pause)
        devices = _found(asked, ids, (measure or from_driver)())
    for device in devices:
        yield f"GPU {device.index} ({device.kind}): {_gib(device.free)} of {_gib(device.total)} GiB free"


def _ids(asked: Asked, given: list[str], named: str | None) -> list[str]:
    """The ids of this worker's devices; Ray's word and the environment must agree, or an engine takes somebody else's GPU."""
    if len(given) != asked.gpus:
        raise DeviceProblem(f"{asked.model} asked for {asked.gpus} GPUs and Ray gave {len(given)} ({','.join(given)})")
    seen = [name.strip() for name in (named or "").split(",") if name.strip()]
    if seen != given:
        raise DeviceProblem(
            f"Ray gave {asked.model} the GPUs {','.join(given)}, but CUDA_VISIBLE_DEVICES says {named or 'nothing'}; "
            "unset RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES on every node before `ray start`"
        )
    return given


def _found(asked: Asked, ids: Sequence[str], devices: Sequence[Device]) -> list[Device]:
    """The devices with these indexes or UUIDs, which CUDA lets one shorten."""
    found = []
    for name in ids:
        same = [d for d in devices if d.index == name or (not name.isdigit() and d.uuid.startswith(name))]
        if not same and name.startswith("MIG-"):
            raise Unmeasurable("nvidia-smi counts no parts of a GPU (MIG)")
        if len(same) != 1:
            known = ", ".join(device.index for device in devices) or "none"
            raise DeviceProblem(f"Ray gave {asked.model} GPU {name}, but this node's driver knows {known}")
        found.append(same[0])
    return found


def _of_kind(asked: Asked, devices: Sequence[Device]) -> None:
    if not asked.accelerator:
        return
    first, *more = asked.accelerator.upper().split("-")
    for device in devices:
        kind = device.kind.upper()
        if not re.search(rf"\b{re.escape(first)}\b", kind) or not all(part in kind for part in more):
            raise DeviceProblem(
                f"{asked.model} asked for {asked.accelerator}, but GPU {device.index} of its node is a {device.kind}"
            )


def _lack(asked: Asked, device: Device, patience: float) -> str:
    return (
        f"{asked.model} needs {_gib(asked.needs(device))} GiB free on GPU {device.index}, "
        f"and after {patience:.0f} s {_held(device)}"
    )


def _held(device: Device) -> str:
    """``only 20.1 of 139.8 GiB are free: process 4711 holds 119.2 GiB``."""
    free = f"only {_gib(device.free)} of {_gib(device.total)} GiB are free on GPU {device.index}"
    held = [f"process {pid} holds {_gib(size)} GiB" for pid, size in device.holders]
    return f"{free}: {' and '.join(held)}" if held else f"{free} (the driver does not tell who holds the rest)"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"


# -- the driver's counters --------------------------------------------------------------------------------------------
class Unmeasurable(Exception):
    """This node has no driver to ask."""


def from_driver(command: str = "nvidia-smi") -> list[Device]:
    """Every GPU of this node; raises Unmeasurable where no driver answers."""
    holders: dict[str, list[tuple[int, int]]] = {}
    rows = _asked(command, "gpu", "index,uuid,name,memory.free,memory.total")
    for uuid, pid, size in _asked(command, "compute-apps", "gpu_uuid,pid,used_memory"):
        if pid.isdigit() and size.isdigit():
            holders.setdefault(uuid, []).append((int(pid), int(size) * 2**20))
    return [
        Device(index, uuid, kind, int(free) * 2**20, int(total) * 2**20, tuple(holders.get(uuid, ())))
        for index, uuid, kind, free, total in rows
        if free.isdigit() and total.isdigit()
    ]


@dataclass(frozen=True, slots=True)
class Busy:
    """What one GPU does now."""

    index: str
    busy: float
    """Percent of the last moment in which it computed."""
    used: float
    total: float
    """Mebibytes of memory."""
    watts: float | None


def loads(command: str = "nvidia-smi") -> list[Busy]:
    """How busy every GPU of this node is; raises Unmeasurable where no driver answers. One that says nothing is left out."""
    rows = _asked(command, "gpu", "index,utilization.gpu,memory.used,memory.total,power.draw")
    return [
        Busy(index, float(busy), float(used), float(total), float(watts) if _number(watts) else None)
        for index, busy, used, total, watts in rows
        if _number(busy) and _number(used) and _number(total) and float(total)
    ]


def _number(cell: str) -> bool:
    """Whether it is one; a driver says ``[N/A]`` where it cannot tell."""
    return bool(re.fullmatch(r"\d+(\.\d+)?", cell))


def _asked(command: str, what: str, fields: str) -> list[list[str]]:
    """Rows of a query; lines that are no row (a warning, a device that fell off the bus) are left out."""
    line = [command, f"--query-{what}={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    except FileNotFoundError:
        raise Unmeasurable("no nvidia-smi on this node") from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise Unmeasurable(f"nvidia-smi failed ({type(problem).__name__})") from None
    rows = [[cell.strip() for cell in row.split(",")] for row in done.stdout.splitlines()]
    return [row for row in rows if len(row) == fields.count(",") + 1]
