"""Every install line of the README, the docs and deploy/ resolves on every supported Python, under the constraints it names."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "deploy").iterdir())]
PYTHONS = ("3.11", "3.12", "3.13")
LINE = re.compile(r"pip install ([^`\n]*?(?:'?(?:proactive-sweep|\.)(?:\[([\w,]+)\])?'?))(?=[\s`)&\\]|$)", re.M)


class Install(NamedTuple):
    constraints: str
    """File name; empty without constraints."""
    extras: str


def install_lines() -> set[Install]:
    """Every distinct combination of constraints and extras that a page tells a user to install."""
    installs = set()
    for page in PAGES:
        for line in LINE.finditer(page.read_text()):
            constraints = re.search(r"-c ([\w.-]+)", line[1])
            installs.add(Install(constraints[1] if constraints else "", line[2] or ""))
    return installs


def resolve(install: Install, python: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--python-version", python]
    command += ["--python-platform", "x86_64-manylinux_2_28"]
    command += [part for extra in install.extras.split(",") if extra for part in ("--extra", extra)]
    command += ["-c", install.constraints] if install.constraints else []
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


def test_the_pages_install_the_paper_and_the_laptop() -> None:
    lines = install_lines()

    assert Install("constraints-gpu.txt", "vllm,transformers,vision,openai,hub") in lines
    assert Install("constraints.txt", "transformers,openai") in lines


@pytest.mark.slow
@pytest.mark.long
def test_every_install_line_resolves() -> None:
    """Pinned lines on every Python, the others on one: they take what the index has, whatever the Python."""
    pairs = [
        (install, python)
        for install in sorted(install_lines())
        for python in PYTHONS[: 3 if install.constraints else 1]
    ]
    with ThreadPoolExecutor(8) as threads:  # the index is waited for, not the processor
        outcomes = list(threads.map(lambda pair: resolve(*pair), pairs))
    if any("Failed to fetch" in done.stderr or "error sending request" in done.stderr for done in outcomes):
        pytest.skip("no package index is reachable")

    assert not [(pair, done.stderr[-2000:]) for pair, done in zip(pairs, outcomes, strict=True) if done.returncode]


def test_both_sets_hold_the_same_versions_but_for_cuda() -> None:
    """What runs on a laptop is what runs on GPUs; only packages that CUDA's own pin may differ."""
    tested, gpu = (pins(ROOT / name) for name in ("constraints.txt", "constraints-gpu.txt"))
    differing = {name for name in tested.keys() & gpu.keys() if not tested[name] & gpu[name]}

    assert differing <= {"apache-tvm-ffi", "setuptools", "triton"}, {
        name: (tested[name], gpu[name]) for name in differing
    }


def pins(path: Path) -> dict[str, set[str]]:
    """Package -> its pinned versions, one per marker, without local parts such as +cpu."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;+]+)", path.read_text(), re.M):
        versions.setdefault(name, set()).add(version)
    return versions
