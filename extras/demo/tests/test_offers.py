"""What the extra offers, and what the core keeps of it: models, sweeps, the stored benchmark, its categories, the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestrator.report.scores.answer import DEMO_CATEGORIES
from proactive_demo.drawing import CATEGORIES
from proactive_demo.stored_benchmark import write_stored_benchmark
from sweeps.load import load
from sweeps.registry import registry
from sweeps.sweep_file import shipped_sweeps
from tests.benchmark import STORED
from tests.conftest import Cli

SWEEPS = ("demo", "demo-oeg", "demo-oeg-multi", "demo-real", "demo-real-oeg", "demo-real-tools", "demo-tools")
EXTRA = Path(__file__).parents[1]


def test_models_and_sweeps_are_offered():
    assert {"embedded", "embedded-asks", "embedded-135m", "smollm2-135m"} <= registry().keys()
    for name in SWEEPS:
        assert shipped_sweeps()[name].is_relative_to(EXTRA)
        assert load(Path(name)) == load(Path(f"sweeps/{name}.toml"))
    assert set(SWEEPS) == {path.stem for path in EXTRA.glob("proactive_demo/sweeps/*.toml")}


def test_reports_know_every_category_of_the_demo():
    assert {re.sub("[^a-z]", "", name.lower()) for name in CATEGORIES} == DEMO_CATEGORIES


def test_the_stored_benchmark_has_the_lines_that_are_drawn(tmp_path):
    write_stored_benchmark(tmp_path / "data")
    drawn, stored = (
        {p.relative_to(f): p for f in (folder,) for p in f.rglob("*.*")} for folder in (tmp_path / "data", STORED)
    )

    assert drawn.keys() == stored.keys()
    assert all(
        drawn[name].read_bytes() == path.read_bytes() for name, path in stored.items() if path.suffix == ".jsonl"
    )
    assert sum(path.stat().st_size for path in stored.values()) < 3e6


def test_the_command_draws_and_keeps_a_folder(tmp_path):
    cli = Cli(dict(os.environ))
    drawn = cli.call("data", "demo", tmp_path / "data", "--samples", "7")
    kept = cli.call("data", "demo", tmp_path / "data", "--keep")
    refused = cli.call("data", "demo", tmp_path / "data", "--scenarios", "QDD")

    assert (drawn.returncode, kept.returncode, refused.returncode) == (0, 0, 2)
    assert "QD 1" in drawn.stdout and "already exists" in kept.stdout and "no scenario 'QDD'" in refused.stderr


@pytest.mark.slow
def test_the_wheel_has_the_weights_and_not_what_trained_them(tmp_path):
    code = "from setuptools import build_meta; import sys; print(build_meta.build_wheel(sys.argv[1]))"
    copy = tmp_path / "demo"
    subprocess.run(["cp", "-r", str(EXTRA), str(copy)], check=True)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=copy, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())

    files = (
        "models.toml",
        "sweeps/demo.toml",
        "embedded/model.safetensors",
        "embedded/adapter-asks/adapter_config.json",
    )
    assert {f"proactive_demo/{name}" for name in (*files, "embedded_135m/trained.safetensors")} <= names
    assert not [name for name in names if "/training/" in name]
