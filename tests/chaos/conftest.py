"""One cluster and one undisturbed run for all faults, and the table of what was tried."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.ground import PLANNED, Ground, sweep, tally
from tests.conftest import ENVIRONMENT

PROPERTY = "chaos"
"""Name of the row that a test leaves in its report, so that it also comes back from another process (pytest-xdist)."""
HEADER = ("fault", "planned", "stored", "twice", "same results", "orphans")


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    os.environ.update({**ENVIRONMENT, "RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"})
    chaos_ground = Ground()
    try:
        yield chaos_ground
    finally:
        chaos_ground.close()


@pytest.fixture(scope="session")
def sweep_file(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep(tmp_path_factory.mktemp("chaos") / "chaos.toml", demo_data)


@pytest.fixture(scope="session")
def undisturbed(ground: Ground, sweep_file: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """results.json of the sweep when nothing goes wrong."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = ground.run("run", sweep_file, "--output", out)
    assert done.returncode == 0, done.stderr
    assert tally(out) == (PLANNED, 0)
    return (out / "results.json").read_bytes()


@pytest.fixture
def check_survival(ground: Ground, undisturbed: bytes, request: pytest.FixtureRequest) -> Callable[[str, Path], None]:
    """Check that a run folder is as if nothing had happened, and add a row to the table."""

    def check(fault: str, folder: Path, same: bool | None = None, planned: int = PLANNED) -> None:
        stored, twice = tally(folder)
        equal = (folder / "results.json").read_bytes() == undisturbed if same is None else same
        orphans = ground.orphans()
        row = (fault, planned, stored, twice, "yes" if equal else "NO", len(orphans))
        request.node.user_properties.append((PROPERTY, row))
        assert (stored, twice, equal, orphans) == (planned, 0, True, [])

    return check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    rows = [
        row for report in reports if report.when == "call" for name, row in report.user_properties if name == PROPERTY
    ]
    if rows:
        terminalreporter.write_sep("-", "chaos")
        for row in (HEADER, *rows):
            fault, *figures = row
            terminalreporter.write_line(f"{fault:<58}" + "".join(f"{figure!s:>13}" for figure in figures))
