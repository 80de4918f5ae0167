"""The differences between what a model gets here by default and in the published package, as data (``differences.toml``)."""

from pathlib import Path
from typing import Literal

from envs.samples import paper_ids
from sweeps.load import load
from sweeps.shipped import FOLDER
from sweeps.spec import Cell
from sweeps.sweep_file import read_toml
from sweeps.validation import validate_table
from sweeps.values import Frozen

DIFFERENCES = Path(__file__).with_name("differences.toml")


class Difference(Frozen):
    """One difference, its reason and its switch."""

    name: str
    ours: str
    package: str
    reason: str
    switch: str
    models: tuple[str, ...] | Literal["local", "service"] | None = None
    conditions: tuple[str, ...] = ()
    """Empty means all conditions."""
    scenarios: tuple[str, ...] = ()
    """Empty means all scenarios."""

    def concerns(self, cell: Cell) -> bool:
        """Return True if the episodes of a cell may differ."""
        match self.models:
            case "local":
                has_model = cell.model.is_local
            case "service":
                has_model = cell.model.backend == "openai"
            case names:
                has_model = cell.model.name in (names or ())
        in_condition = not self.conditions or cell.condition.name in self.conditions
        return has_model and in_condition and (not self.scenarios or cell.scenario in self.scenarios)


def differences() -> tuple[Difference, ...]:
    """Return every difference in the order of the file."""
    tables = read_toml(DIFFERENCES)
    where = str(DIFFERENCES)
    return tuple(validate_table(Difference, {"name": name, **table}, where) for name, table in tables.items())


def paper_episodes(difference: Difference) -> int | None:
    """Return how many episodes of ``paper.toml`` a difference concerns at most; None if unknown."""
    if difference.models is None:
        return None
    ids, cells = paper_ids(), load(FOLDER / "paper.toml").cells()
    return sum(len(ids[cell.scenario]) for cell in cells if difference.concerns(cell))
