"""Commands that need no cluster start in a fraction of a second: they import what they use, when they use it.

Processor time of a command is compared with that of a bare interpreter, the least of several runs of each, so that a busy machine
changes neither side.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.orchestrator.report.runs import played, sweep

TIMES = {"--help": 25, "plan": 35, "status": 50}
"""Times a bare interpreter, which takes 15 ms where nothing else runs; where much does, larger programs lose more than it."""
RUNS = 3
HEAVY = {"polars", "ray", "mlflow", "torch", "transformers", "scipy", "matplotlib"}


def seconds(*arguments: str) -> float:
    """Processor seconds of an interpreter with these arguments, the least of ``RUNS``."""
    taken = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(taken)


@pytest.fixture(scope="module")
def bare() -> float:
    return seconds("-c", "pass")


def loaded(*arguments: str) -> set[str]:
    """The heavy packages that a command imports."""
    code = f"""
import sys
sys.argv = ["proactive-sweep", *{list(arguments)!r}]
from orchestrator.cli.main import main
try:
    main()
finally:
    print(*sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stderr.split())


@pytest.mark.parametrize("command", [("--help",), ("run", "--help"), ("ls", "scenarios")])
def test_help_loads_no_heavy_package(command):
    assert loaded(*command) == set()


def test_a_plan_loads_no_tables_and_no_engine(demo_data, tmp_path):
    here = ["--set", f"data={demo_data}", "--output", str(tmp_path / "run")]

    assert loaded("plan", "demo", *here) == set()


def test_help_takes_few_times_a_bare_interpreter(bare):
    assert seconds("-m", "orchestrator", "--help") < TIMES["--help"] * bare


def test_a_plan_takes_few_times_a_bare_interpreter(bare, demo_data, tmp_path):
    here = ["--set", f"data={demo_data}", "--output", str(tmp_path / "run")]

    assert seconds("-m", "orchestrator", "plan", "demo", *here) < TIMES["plan"] * bare


def test_status_takes_few_times_a_bare_interpreter(bare, demo_data, tmp_path):
    folder = played(tmp_path / "run", sweep(demo_data, models=["oracle"], conditions=["zero-shot"]))

    assert seconds("-m", "orchestrator", "status", str(folder)) < TIMES["status"] * bare
