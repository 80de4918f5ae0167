"""Parts of ``make gpu`` about correctness: the driver, memory given back, every architecture, and an engine that fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.gpu.part import NotHere

CHILD_BYTES = 2 * 2**30
"""Bytes that a child process takes of the GPU."""
BACK_TIMEOUT_S = 60.0
"""Seconds within which they must be free again."""
TOGETHER = 16
HOLD = "import sys, torch; held = torch.ones({size}, dtype=torch.uint8, device='cuda'); torch.cuda.synchronize(); " \
       "print('held', flush=True); sys.stdin.readline()"  # fmt: skip


def driver(device: str, small: bool) -> dict[str, Any]:
    """The check that a worker makes of the GPU it was given, and torch's own count of the same memory."""
    if device != "cuda":
        raise NotHere("no driver is asked on a CPU")
    import torch

    from actors.node.gpu_check import GpuRequest, check_gpus
    from actors.node.nvml import devices

    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
    first = visible.split(",")[0]
    lines = list(check_gpus(GpuRequest("make gpu", 1, share=0.5), [first], first))
    measured = next(gpu for gpu in devices() if first in (gpu.index, gpu.uuid))
    _, total = torch.cuda.mem_get_info()
    return {
        "said": lines[-1],
        "GiB by driver": round(measured.total / 2**30, 1),
        "GiB by torch": round(total / 2**30, 1),
    }


def release(device: str, small: bool) -> dict[str, Any]:
    """Seconds until a child's memory is free again by the driver's count: closed, then killed."""
    if device != "cuda":
        raise NotHere("a CPU has no memory of its own to give back")
    return {f"s after {how}": _seconds_until_free(how) for how in ("close", "kill -9")}


def _seconds_until_free(how: str) -> float:
    before = _free_bytes()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(size=CHILD_BYTES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline().strip() == "held"
    assert _free_bytes() < before - CHILD_BYTES // 2, "the driver does not count the child's memory"
    began = time.monotonic()
    if how == "close":
        child.communicate("\n")
    else:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    while _free_bytes() < before - CHILD_BYTES // 4:
        assert time.monotonic() - began < BACK_TIMEOUT_S, f"{how}: the memory is not given back"
        time.sleep(0.05)
    return round(time.monotonic() - began, 2)


def _free_bytes() -> int:
    from actors.node.nvml import devices

    first = (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]
    return next(gpu.free for gpu in devices() if first in (gpu.index, gpu.uuid))


# -- engines -----------------------------------------------------------------------------------------------------------
def architectures(device: str, small: bool) -> dict[str, Any]:
    """Each in the dtype of its entry: whether ids and greedy reply are those of the package's call, or what went wrong."""
    from sweeps.registry import registry
    from tests.actors.architectures import ARCHITECTURES

    entries, outcomes = registry(), dict[str, Any]()
    for name, kind in ARCHITECTURES.items():
        dtype = "float32" if device == "cpu" else entries[kind.models[0]].dtype
        try:
            outcomes[name] = _compare(name, device, dtype)
        except (ImportError, ValueError, RuntimeError, OSError) as problem:
            outcomes[name] = f"{type(problem).__name__}: {str(problem).strip().splitlines()[0][:120]}"
    if not any(str(outcome).startswith("ids equal") for outcome in outcomes.values()):
        raise RuntimeError(f"no architecture runs: {outcomes}")
    return outcomes


def _compare(name: str, device: str, dtype: str) -> str:
    from actors.engine.hf.package_call import PackageCall
    from tests.actors.architectures import write
    from tests.actors.rehearsal_prompts import draw, picture

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        draw(folder)
        write(name, folder / "model")
        backend, request = _backend(folder, device, dtype), _request([picture(0)])
        try:
            ids, reply = asyncio.run(_ids_and_reply(backend, request))
            pictures = asyncio.run(backend.pictures.load(request.messages))
        finally:
            asyncio.run(backend.close())
        package = PackageCall(_entry(folder, device, dtype))
        package_ids = package.ids(request.messages, pictures)
        package_reply = package.reply(request.messages, pictures, request.sampling.max_tokens).rstrip("\ufffd")
    same = ids == package_ids or [package_ids[0], *ids] == package_ids
    return f"ids {'equal' if same else 'differ'}, reply {'equal' if reply == package_reply else 'differs'} ({dtype})"


async def _ids_and_reply(backend: Any, request: Any) -> tuple[list[int], str]:
    return await backend.token_ids(request), (await backend.reply(request)).text


def _entry(folder: Path, device: str, dtype: str, **options: Any) -> Any:
    from sweeps.spec import ModelSpec

    gpus = int(device == "cuda")
    return ModelSpec(
        name="tiny", source=str(folder / "model"), backend="transformers", gpus=gpus, dtype=dtype, options=options
    )


def _backend(folder: Path, device: str, dtype: str = "float32", **options: Any) -> Any:
    from actors.engine.registry import open_engine

    return open_engine(_entry(folder, device, dtype, **options), folder)


def _request(pictures: Sequence[Any], text: str = "What is this?", tokens: int = 8) -> Any:
    from tests.actors.asking import make_request, user

    return make_request(user(text, *pictures), max_tokens=tokens)


def _tiny(folder: Path) -> list[Any]:
    """An Idefics3 that needs no torchvision, ten pictures, and sixteen requests of several lengths."""
    from tests.actors.architectures import write
    from tests.actors.rehearsal_prompts import draw, picture

    draw(folder)
    write("idefics3", folder / "model")
    return [_request([picture(number % 10)], "What is this? " * (1 + number % 4)) for number in range(TOGETHER)]


async def _replies(backend: Any, requests: Sequence[Any]) -> list[Any]:
    return list(await asyncio.gather(*map(backend.reply, requests), return_exceptions=True))


def batch(device: str, small: bool) -> dict[str, Any]:
    """Sixteen requests side by side, then one after the other."""
    with tempfile.TemporaryDirectory() as temporary:
        requests = _tiny(Path(temporary))
        backend = _backend(Path(temporary), device, batch=TOGETHER)
        asyncio.run(_replies(backend, requests[:2]))
        began = time.monotonic()
        together = asyncio.run(_replies(backend, requests))
        middle = time.monotonic()
        alone = [asyncio.run(_replies(backend, [request]))[0] for request in requests]
        ended = time.monotonic()
        asyncio.run(backend.close())
    equal = sum(a.text == b.text for a, b in zip(together, alone, strict=True))
    rates = {"requests/s together": TOGETHER / (middle - began), "alone": TOGETHER / (ended - middle)}
    return {"equal replies": f"{equal} of {TOGETHER}", **{name: round(rate, 1) for name, rate in rates.items()}}


def out_of_memory(device: str, small: bool) -> dict[str, Any]:
    """The process may take just a little more than the model and a batch of one: the driver's own error, met halfway."""
    if device != "cuda":
        raise NotHere("the allocator of a CPU has no limit to set")
    import torch

    with tempfile.TemporaryDirectory() as temporary:
        requests = _tiny(Path(temporary))
        backend = _backend(Path(temporary), device, batch=TOGETHER)
        expected = [asyncio.run(_replies(backend, [request]))[0].text for request in requests]
        torch.cuda.reset_peak_memory_stats()
        asyncio.run(_replies(backend, requests[:1]))
        single = torch.cuda.max_memory_reserved()
        torch.cuda.empty_cache()
        _, total = torch.cuda.mem_get_info()
        torch.cuda.set_per_process_memory_fraction(min(1.0, 1.1 * single / total))
        replies = asyncio.run(_replies(backend, requests))
        size = backend.size
        asyncio.run(backend.close())
    answered = [reply.text for reply in replies if not isinstance(reply, Exception)]
    assert len(answered) == TOGETHER, f"not answered: {[r for r in replies if isinstance(r, Exception)][:1]}"
    equal = sum(a == b for a, b in zip(answered, expected, strict=True))
    return {"answered": len(answered), "equal replies": f"{equal} of {TOGETHER}", "batch afterwards": size}


def device_assert(device: str, small: bool) -> dict[str, Any]:
    """Token ids beyond the vocabulary make the device assert; nobody may be answered afterwards."""
    if device != "cuda":
        raise NotHere("a CPU raises IndexError and goes on")
    from actors.engine.backend import BackendDied

    with tempfile.TemporaryDirectory() as temporary:
        requests = _tiny(Path(temporary))
        backend = _backend(Path(temporary), device)
        real = backend.model.inputs
        backend.model.inputs = lambda jobs: _exceed_vocabulary(real(jobs))
        lost = asyncio.run(_replies(backend, requests[:1]))[0]
        backend.model.inputs = real
        after = asyncio.run(_replies(backend, requests[1:2]))[0]
    assert isinstance(lost, BackendDied) and isinstance(after, BackendDied), (lost, after)
    return {"reason": str(lost)[:160]}


def _exceed_vocabulary(inputs: Any) -> Any:
    inputs["input_ids"][:, -1] = 10**6
    return inputs


def through_ray(device: str, small: bool) -> dict[str, Any]:
    """The command line's own trial; on a GPU the model asks for one."""
    import ray  # noqa: F401  # absent on a bare machine: this part is skipped then

    from tests.benchmark import copy_benchmark

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _tiny(folder)
        copy_benchmark(folder / "data", per_scenario=1)
        entry = (
            f'name = "tiny"\nsource = "{folder / "model"}"\nbackend = "transformers"\ngpus = {int(device == "cuda")}\n'
        )
        head = f'name = "try"\ndata = "{folder / "data"}"\nconditions = ["zero-shot"]\n'
        (folder / "try.toml").write_text(f'{head}[[model]]\n{entry}dtype = "float32"\n')
        command = [sys.executable, "-m", "orchestrator", "models", "try", str(folder / "try.toml"), "--json"]
        done = subprocess.run(
            [*command, "--output", str(folder / "rates")], capture_output=True, text=True, check=False
        )
    if not done.stdout.strip():
        raise RuntimeError((done.stderr.strip().splitlines() or ["models try said nothing"])[-1])
    (row,) = json.loads(done.stdout)
    if row["wrong"]:
        raise RuntimeError(row["wrong"])
    return {name: row[name] for name in ("loads", "gpu", "picture", "rate", "equal")}
