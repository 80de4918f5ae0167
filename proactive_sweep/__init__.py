"""The Python door of proactive-sweep (docs/api.md): ``game``, ``load_data``, ``run`` and ``open_run``.

Each is imported when it is first used, so that ``import proactive_sweep`` takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.scenario import Scenario
    from envs.types import Sample
    from orchestrator.api import Run
    from sweeps.spec import Sweep

__all__ = ["game", "load_data", "open_run", "run"]


def game(scenario: str) -> Scenario:
    """Return the rules of a scenario: ``state, turn = game("ROD").step(sample, state, reply)``. Raises PackageError."""
    from envs import SCENARIOS

    return SCENARIOS[scenario]


def load_data(
    folder: str | Path, scenarios: str | Sequence[str] = (), filtered: bool = True
) -> dict[str, list[Sample]]:
    """Return the samples of a benchmark folder by scenario, by default of the paper's that it has.

    ``filtered`` leaves out the samples that the paper does not evaluate. Raises BadData, or SweepError for an unknown scenario.
    """
    from envs.samples import BadData, load_samples, scenarios_in
    from sweeps.packages import find_scenarios

    names = find_scenarios(scenarios, "load_data") if scenarios else scenarios_in(Path(folder))
    if not names:
        raise BadData(f"{folder} holds no scenario of the benchmark")
    return {name: load_samples(Path(folder), name, filtered) for name in names}


def run(sweep: str | Path | dict[str, Any] | Sweep, **keys: Any) -> Run:
    """Play a sweep (a file, a name, a table or ``load_sweep``'s value) and open its run folder; call it again to resume.

    ``keys`` override those of the sweep: ``run("baselines", data="my-data", selection={"limit": 5})``.
    """
    from orchestrator import api
    from sweeps.spec import Sweep

    if isinstance(sweep, Sweep) and keys:
        raise api.SweepError(f"{', '.join(keys)} cannot change a sweep that is loaded; pass it to load_sweep instead")
    return api.run(sweep if isinstance(sweep, Sweep) else api.load_sweep(sweep, **keys))


def open_run(folder: str | Path, data: str | Path | None = None, judge: str = "") -> Run:
    """Open a run folder; the arguments are those of ``orchestrator.open_run``."""
    from orchestrator import api

    return api.open_run(folder, data, judge)
