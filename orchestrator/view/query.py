"""Filters and orders of the list, as the page's address holds them, and the rows that they leave.

Every filter is a mask over the columns of ``Catalog``; the counts beside a filter's values ignore that filter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from orchestrator.view.catalog import Catalog
from orchestrator.view.part_columns import ACTIONS, FLAGS, KINDS, CellNames, Flag

NAMES = ("run", *CellNames._fields)
"""Filters by a cell's names."""
OUTCOMES = {"right": 1, "not right": 0, "without a score": -1}
SORTS: dict[str, Callable[[Catalog], np.ndarray]] = {
    "sample": lambda catalog: catalog.columns["sample"],
    "model": lambda catalog: catalog.name_ranks("model"),
    "condition": lambda catalog: catalog.name_ranks("condition"),
    "ending": lambda catalog: catalog.columns["kind"],
    "turns": lambda catalog: catalog.columns["turns"],
    "seconds": lambda catalog: np.nan_to_num(catalog.columns["seconds"]),
    "tokens read": lambda catalog: catalog.columns["read"],
    "tokens written": lambda catalog: catalog.columns["written"],
}
"""Name of an order -> values to sort by; without one, rows are in stored order."""
LONGEST = 300
"""Most characters of a filter's value."""


@dataclass(frozen=True, slots=True)
class Query:
    """The filters and the order of a list; empty strings do not filter."""

    run: str = ""
    model: str = ""
    scenario: str = ""
    condition: str = ""
    protocol: str = ""
    kind: str = ""
    outcome: str = ""
    action: str = ""
    flag: str = ""
    sample: str = ""
    text: str = ""
    differs: str = ""
    """``model:NAME`` or ``run:NAME``: only episodes with another outcome than NAME's on the same sample."""
    sort: str = ""
    """A name in ``SORTS``, with a minus for the largest first."""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Self:
        """Return the query of an address; unknown parameters are ignored, and long values cut."""
        names = cls.__dataclass_fields__
        return cls(**{name: value[:LONGEST] for name, value in parameters.items() if name in names})


def mask(catalog: Catalog, query: Query, without: str = "") -> np.ndarray:
    """Return True for the episodes that pass all filters except ``without``."""
    passed = np.ones(catalog.height, bool)
    names = {name: getattr(query, name) for name in NAMES if name != without}
    if any(names.values()):
        passed &= catalog.cells_named(names)[catalog.columns["cell"]]
    for name, rows in _masks(catalog, query).items():
        if name != without:
            passed &= rows()
    if query.text.strip():
        passed &= catalog.replies_with(query.text.strip(), passed)
    return passed


def _masks(catalog: Catalog, query: Query) -> dict[str, Callable[[], np.ndarray]]:
    columns = catalog.columns
    masks: dict[str, Callable[[], np.ndarray]] = {}
    if query.kind:
        kind = KINDS.index(query.kind) if query.kind in KINDS else 255
        masks["kind"] = lambda: columns["kind"] == kind
    if query.outcome:
        masks["outcome"] = lambda: columns["right"] == OUTCOMES.get(query.outcome, 9)
    for name, labels in (("action", ACTIONS), ("flag", FLAGS)):
        if wanted := getattr(query, name):
            masks[name] = partial(_with_flag, columns["flags"], labels, wanted)
    if query.sample:
        sample = int(query.sample) if query.sample.isdecimal() and len(query.sample) < 10 else -2
        masks["sample"] = lambda: columns["sample"] == sample
    if query.differs:
        masks["differs"] = lambda: catalog.ended_otherwise(*query.differs.partition(":")[::2])
    return masks


def _with_flag(flags: np.ndarray, labels: Mapping[Flag, str], wanted: str) -> np.ndarray:
    bits = sum(flag for flag, label in labels.items() if label == wanted)
    return np.asarray((flags & bits) != 0)


def order(catalog: Catalog, query: Query, passed: np.ndarray) -> np.ndarray:
    """Return the positions of the rows that passed, sorted; equal rows stay in stored order."""
    positions = np.flatnonzero(passed)
    key = SORTS.get(query.sort.removeprefix("-"))
    if key is None:
        return positions
    values = key(catalog)[positions].astype(np.float64)
    return positions[np.argsort(-values if query.sort.startswith("-") else values, kind="stable")]


def counts(catalog: Catalog, query: Query) -> dict[str, list[tuple[str, int]]]:
    """Return per filter its values and their numbers of episodes under the other filters; empty values are left out."""
    by_filter = _count_all(catalog, mask(catalog, query))
    for name in by_filter:
        if getattr(query, name):
            by_filter[name] = _count_all(catalog, mask(catalog, query, name))[name]
    return {name: [pair for pair in pairs if pair[1]] for name, pairs in by_filter.items()}


def _count_all(catalog: Catalog, rows: np.ndarray) -> dict[str, list[tuple[str, int]]]:
    columns = {name: catalog.columns[name][rows] for name in ("cell", "kind", "right", "flags")}
    sizes = np.bincount(columns["cell"], minlength=len(catalog.cells)).tolist()
    kinds = np.bincount(columns["kind"], minlength=len(KINDS)).tolist()
    rights = np.bincount(columns["right"] + 1, minlength=len(OUTCOMES)).tolist()
    flags = np.bincount(columns["flags"], minlength=256).tolist()

    def flagged(labels: Mapping[Flag, str]) -> list[tuple[str, int]]:
        return [(label, sum(size for bits, size in enumerate(flags) if bits & flag)) for flag, label in labels.items()]

    return {
        **{name: catalog.count_names(name, sizes) for name in NAMES},
        "kind": list(zip(KINDS, kinds, strict=True)),
        "outcome": [(label, rights[number + 1]) for label, number in OUTCOMES.items()],
        "action": flagged(ACTIONS),
        "flag": flagged(FLAGS),
    }


def describe(catalog: Catalog, position: int) -> dict[str, Any]:
    """Return a row of the list, for JSON."""
    columns = {name: values[position].item() for name, values in catalog.columns.items()}
    run, names = catalog.cells[columns["cell"]]
    return {
        "id": str(columns["hash"]), "run": run, "model": names.model, "scenario": names.scenario, "condition": names.condition,
        "protocol": names.protocol, "sample": columns["sample"], "kind": KINDS[columns["kind"]],
        "right": columns["right"], "turns": columns["turns"],
    }  # fmt: skip
