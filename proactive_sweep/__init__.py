"""The Python door of proactive-sweep (docs/api.md): ``game``, ``load_data``, ``run`` and ``open_run``.

Each is imported when it is first used, so that ``import proactive_sweep`` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from envs.scenario import Scenario
    from envs.types import Sample
    from orchestrator.api.open_run import Run, open_run
    from sweeps.spec import Sweep

__all__ = ["game", "load_data", "open_run", "run"]


def game(scenario: str) -> Scenario:
    """Return the rules of a scenario: ``state, turn = game("ROD").step(sample, state, reply)``. Raises KeyError."""
    rules: Scenario = import_module("envs").SCENARIOS[scenario]
    return rules


def load_data(folder: str | Path, scenarios: tuple[str, ...] = (), filtered: bool = True) -> dict[str, list[Sample]]:
    """Return the samples of a benchmark folder by scenario, by default of all that it has. Raises BadData.

    ``filtered`` leaves out the samples that the paper does not evaluate.
    """
    path = import_module("pathlib").Path(folder)
    load, games = import_module("envs.samples").load_samples, import_module("envs").SCENARIOS
    names = scenarios or [name for name in games if (path / f"{games[name].stem}_preprocessed.jsonl").is_file()]
    return {name: load(path, name, filtered) for name in names}


def run(sweep: str | Path | dict[str, Any] | Sweep, **keys: Any) -> Run:
    """Play a sweep (a file, a name, a table or ``load_sweep``'s value) and open its run folder; call it again to resume.

    ``keys`` override those of the sweep: ``run("baselines", data="my-data", selection={"limit": 5})``.
    """
    play = import_module("orchestrator.api.play")
    is_loaded = isinstance(sweep, import_module("sweeps.spec").Sweep)
    played: Run = play.run(sweep if is_loaded else play.load_sweep(sweep, **keys))
    return played


def __getattr__(name: str) -> Any:
    if name != "open_run":
        raise AttributeError(f"module 'proactive_sweep' has no attribute {name!r}")
    return import_module("orchestrator.api.open_run").open_run


def __dir__() -> list[str]:
    return __all__
