"""The description of a run that a tracker gets: its address, name, settings, models and data set.

A live sweep and a run folder that is sent again are described by the same functions, so both look the same in the tracker.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from envs.types import Sample
from sweeps.protocol import ZERO_SHOT

UNTRACKED = "none"
"""The ``tracking.uri`` of a sweep that no tracker records."""
MODEL, BASELINE = "model", "baseline"
"""The kinds of a sweep's models (tag and parameter ``kind``)."""
SAMPLE_COLUMNS = ("scenario", "id", "prompt", "options", "categories", "answer")


class Roster(NamedTuple):
    """The sweep's models and conditions in the order of its file."""

    models: tuple[str, ...] = ()
    baselines: frozenset[str] = frozenset()
    """The models that are built-in policies."""
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, sweep: Mapping[str, Any]) -> Self:
        """Return the roster of a resolved sweep (the content of ``sweep.resolved.toml``)."""
        models = [model for model in sweep.get("models", ()) if isinstance(model, dict)]
        return cls(
            tuple(str(model["name"]) for model in models),
            frozenset(str(model["name"]) for model in models if model.get("backend") == "builtin"),
            tuple(str(condition["name"]) for condition in sweep.get("conditions", ()) if isinstance(condition, dict)),
        )

    def kind(self, model: str) -> str:
        """Return ``model`` or ``baseline``."""
        return BASELINE if model in self.baselines else MODEL

    def rank(self, model: str) -> int:
        """Return the model's position in a table: models first, then baselines, each in the order of the file."""
        ordered = sorted(self.models, key=lambda name: name in self.baselines)
        return ordered.index(model) if model in ordered else len(ordered)

    def main_condition(self, played: Iterable[str]) -> str:
        """Return the condition that a model's ``acc`` measures: zero-shot if played, else the sweep's first; "" if none is."""
        ordered = sorted(set(played), key=lambda name: (name != ZERO_SHOT, *self._condition_rank(name)))
        return ordered[0] if ordered else ""

    def _condition_rank(self, condition: str) -> tuple[int, str]:
        listed = condition in self.conditions
        return (self.conditions.index(condition) if listed else len(self.conditions)), condition


EMPTY_ROSTER = Roster()


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The facts about a run that a tracker has before the first episode."""

    uri: str
    experiment: str
    folder: Path
    name: str
    """The sweep's name."""
    params: Mapping[str, str]
    roster: Roster = EMPTY_ROSTER

    @classmethod
    def of(cls, sweep: Mapping[str, Any], folder: Path, uri: str = "") -> Self:
        """Describe a resolved sweep in its run folder; ``uri`` replaces the sweep's own address."""
        tracking, name = sweep["tracking"], str(sweep["name"])
        experiment = tracking.get("experiment") or name
        return cls(uri or tracking["uri"], experiment, folder, name, parameters(sweep), Roster.of(sweep))


def parameters(sweep: Mapping[str, Any]) -> dict[str, str]:
    """Return names and settings of a resolved sweep, without engine options and keys."""
    names = {
        key: ", ".join(part["name"] if isinstance(part, dict) else str(part) for part in sweep[key])
        for key in ("models", "scenarios", "conditions", "protocols")
        if key in sweep
    }
    seed = {"seed": str(sweep["seed"])} if "seed" in sweep else {}
    settings = {
        f"{table}.{key}": str(value)
        for table in ("sampling", "selection")
        for key, value in sweep.get(table, {}).items()
    }
    return {**names, **seed, **settings}


def describe_dataset(name: str, source: str, samples: Mapping[str, Mapping[int, Sample]]) -> dict[str, Any]:
    """Return name, digest, source, columns and counts of the samples that are played.

    The digest covers every field of every sample, so equal samples have equal digests wherever they are stored.
    """
    digest = sha256()
    for scenario in sorted(samples):
        for number in sorted(samples[scenario]):
            digest.update(repr(samples[scenario][number]).encode())
    counts = {scenario: len(numbered) for scenario, numbered in sorted(samples.items())}
    columns = [{"name": column, "type": "string", "required": True} for column in SAMPLE_COLUMNS]
    return {
        "name": f"{name}: {', '.join(counts)}",
        "digest": digest.hexdigest()[:8],
        "source": {"uri": source},
        "schema": {"mlflow_colspec": columns},
        "profile": {"samples": sum(counts.values()), **counts},
    }
