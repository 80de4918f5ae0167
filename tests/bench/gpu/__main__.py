"""``make gpu``: what no test here can show, in under ten minutes on a machine with one CUDA GPU, torch and transformers.

``python -m tests.bench.gpu [--out DIR] [--device cpu] [--small] [PART ...]``. Every part is a process of its own, so that one
that loses the device spoils no other; a part that cannot run says why. Writes ``gpu.json`` and ``gpu.md``; exit code 1 if a part
fails.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.gpu import PARTS

ROOT = Path(__file__).parents[3]
TOTAL_S = 570.0
"""Seconds for all parts together."""
SKIPPED = 3
"""Exit code of a part that cannot run here; its last line says why."""


def run(part: str, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """One part's row: ``state`` (ok, failed, skipped), ``seconds``, and what it found or why not."""
    if seconds <= 0:
        return {"state": "skipped", "seconds": 0.0, "why": f"the {TOTAL_S:.0f} s for all parts are over"}
    command = [sys.executable, "-m", "tests.bench.gpu.part", part, options.device, "small" if options.small else "real"]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"state": "failed", "seconds": round(time.monotonic() - began, 1), "why": f"not done in {seconds:.0f} s"}
    taken = round(time.monotonic() - began, 1)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode == SKIPPED:
        return {"state": "skipped", "seconds": taken, "why": last}
    if done.returncode:
        return {"state": "failed", "seconds": taken, "why": (done.stderr.strip().splitlines() or ["no word"])[-1][:300]}
    return {"state": "ok", "seconds": taken, "found": json.loads(last)}


def table(rows: Mapping[str, Mapping[str, Any]], machine: str) -> str:
    """The rows as Markdown."""
    lines = [f"`make gpu` on {machine}", "", "| part | state | s | found |", "|---|---|---|---|"]
    for part, row in rows.items():
        findings = row.get("why") or "; ".join(f"{name} {value}" for name, value in row["found"].items())
        lines.append(f"| {part} | {row['state']} | {row['seconds']} | {findings} |")
    return "\n".join(lines) + "\n"


def machine(device: str) -> str:
    """What it ran on, by kind alone: no host name."""
    try:
        import torch
    except ModuleNotFoundError:
        return f"{platform.machine()}, no torch"
    on_gpu = device == "cuda" and torch.cuda.is_available()
    return f"{torch.cuda.get_device_name() if on_gpu else platform.machine()}, torch {torch.__version__}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("outputs/gpu"))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny models and few tokens, to try the parts themselves")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    end, rows = time.monotonic() + TOTAL_S, {}
    for part in options.parts or PARTS:
        rows[part] = run(part, options, end - time.monotonic())
        print(f"{part}: {rows[part]['state']} {rows[part].get('why', '')}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    on = machine(options.device)
    (options.out / "gpu.json").write_text(json.dumps({"machine": on, "small": options.small, "parts": rows}, indent=2))
    (options.out / "gpu.md").write_text(table(rows, on))
    print(table(rows, on))
    return int(any(row["state"] == "failed" for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
