"""``make gpu``: what no test can show without a GPU, in at most 540 s.

``python -m tests.bench.gpu [--out DIR] [--device cpu] [--small] [PART ...]``. It first says which packages are missing and how to
carry them. Every part is a process of its own, so that one that loses the device spoils no other. Writes ``gpu.json`` and
``gpu.md``. Exit code 1 if a part fails, 3 if one was skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.gpu import NEEDED, PARTS, SKIPPED

ROOT = Path(__file__).parents[3]


def missing_packages() -> list[str]:
    """Return the distributions that the parts need and this Python lacks."""
    return [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]


def run_part(part: str, device: str, small: bool) -> dict[str, Any]:
    """Run one part; return its row: ``state`` (ok, failed, skipped), ``seconds``, and ``figures`` or ``why``."""
    command = [sys.executable, "-m", "tests.bench.gpu.part", part, device, "small" if small else "real"]
    began = time.monotonic()
    try:
        process = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=PARTS[part].seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"state": "failed", "seconds": PARTS[part].seconds, "why": f"not done in {PARTS[part].seconds:.0f} s"}
    row: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1)}
    last = (process.stdout.strip().splitlines() or [""])[-1]
    if process.returncode == SKIPPED:
        return row | {"state": "skipped", "why": last}
    if process.returncode:
        return row | {"state": "failed", "why": (process.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    return row | {"state": "ok", "figures": json.loads(last)}


def format_table(rows: Mapping[str, Mapping[str, Any]], machine: str) -> str:
    """Return the rows as Markdown."""
    lines = [f"`make gpu` on {machine}", "", "| part | state | s | figures |", "|---|---|---|---|"]
    for part, row in rows.items():
        text = row.get("why") or "; ".join(f"{name} {value}" for name, value in row["figures"].items())
        lines.append(f"| {part} | {row['state']} | {row['seconds']} | {text} |")
    return "\n".join(lines) + "\n"


def describe_machine(device: str) -> str:
    """Return the kind of device and the release of torch; no host name."""
    if importlib.util.find_spec("torch") is None:
        return f"{platform.machine()}, no torch"
    import torch

    on_gpu = device == "cuda" and torch.cuda.is_available()
    return f"{torch.cuda.get_device_name() if on_gpu else platform.machine()}, torch {torch.__version__}"


def main(arguments: Sequence[str]) -> int:
    """Run the parts and print their table; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.bench.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="; ".join(f"{name}: {part.shows}" for name, part in PARTS.items())
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/gpu"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny models and few tokens, to try the parts themselves")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if missing := missing_packages():
        names, release = " ".join(missing), f"{sys.version_info.major}.{sys.version_info.minor}"
        print(
            f"missing: {names}; on another machine: pip download --only-binary=:all: --python-version {release} -d wheels {names}"
        )
        print(
            "carry that folder here, then: pip install --no-index --no-deps --target site wheels/*.whl; PYTHONPATH=site"
        )
        return SKIPPED
    rows = {}
    for part in options.parts or PARTS:
        rows[part] = run_part(part, options.device, options.small)
        print(f"{part}: {rows[part]['state']} {rows[part].get('why', '')}".rstrip(), flush=True)
    machine = describe_machine(options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(
        json.dumps({"machine": machine, "small": options.small, "parts": rows}, indent=2)
    )
    (options.out / "gpu.md").write_text(format_table(rows, machine))
    print(format_table(rows, machine))
    states = {row["state"] for row in rows.values()}
    return 1 if "failed" in states else SKIPPED if "skipped" in states else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
