"""Commands that need no cluster start in a fraction of a second: they import what they use, when they use it.

What a command imports is counted, not its seconds: those depend on what else the machine does (``python -m tests.bench start``).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.orchestrator.report.runs import play_sweep, sweep

HEAVY = {"polars", "ray", "mlflow", "torch", "transformers", "scipy", "numpy", "pyarrow", "matplotlib"}
MODULES = {"--help": 270, "ls": 560, "plan": 600, "status": 800}
"""Modules in memory at a command's end, a fifth above what they are with the tested versions; polars alone has 200, scipy 300."""


def measure_imports(*arguments: str) -> tuple[set[str], int]:
    """The heavy packages that a command imports, and the modules that are in memory at its end."""
    code = f"""
import sys
sys.argv = ["proactive-sweep", *{list(arguments)!r}]
from orchestrator.cli.main import main
try:
    main()
finally:
    print(len(sys.modules), *sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number, *heavy = process.stderr.splitlines()[-1].split()
    return set(heavy), int(number)


@pytest.mark.parametrize("command", [("--help",), ("run", "--help"), ("ls", "scenarios")])
def test_help_loads_no_heavy_package(command):
    heavy, modules = measure_imports(*command)

    assert heavy == set()
    assert modules < MODULES["--help" if command == ("--help",) else "ls"]


def test_a_plan_loads_no_tables_and_no_engine(demo_data, tmp_path):
    options = ("--set", f"data={demo_data}", "--output", str(tmp_path / "run"))
    heavy, modules = measure_imports("plan", "baselines", *options)

    assert heavy == set()
    assert modules < MODULES["plan"]


def test_status_loads_tables_and_nothing_that_computes_or_plays(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, models=["oracle"], conditions=["zero-shot"]))

    heavy, modules = measure_imports("status", str(folder))
    assert heavy == {"polars"}
    assert modules < MODULES["status"]
