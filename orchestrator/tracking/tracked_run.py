"""The description of a run in MLflow, before its first episode: address, name, settings, models and data set."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from envs.types import Sample
from sweeps.protocol import ZERO_SHOT

OTLP = ("otlp://", "otlps://")
"""Addresses of OpenTelemetry, which version 0.2.0 had last."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The facts about a run; models and conditions are in the order of the sweep's file."""

    uri: str
    experiment: str
    folder: Path
    name: str
    """The sweep's name."""
    params: Mapping[str, str]
    models: tuple[str, ...] = ()
    baselines: frozenset[str] = frozenset()
    """The models that are built-in policies."""
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, sweep: Mapping[str, Any], folder: Path, uri: str = "") -> Self:
        """Describe a resolved sweep (the content of ``sweep.resolved.toml``); ``uri`` replaces its own address."""
        tracking, name = sweep.get("tracking", {}), str(sweep["name"])
        models = {str(model["name"]): model.get("backend") == "builtin" for model in sweep.get("models", ())}
        return cls(
            uri or tracking["uri"],
            tracking.get("experiment") or name,
            folder,
            name,
            parameters(sweep),
            tuple(models),
            frozenset(model for model, is_policy in models.items() if is_policy),
            tuple(str(condition["name"]) for condition in sweep.get("conditions", ())),
        )

    def kind(self, model: str) -> str:
        """Return ``model`` or ``baseline``, the tag and parameter ``kind`` of its runs."""
        return "baseline" if model in self.baselines else "model"

    def rank(self, model: str) -> int:
        """Return the model's position in a table: models first, then baselines."""
        ordered = sorted(self.models, key=lambda name: name in self.baselines)
        return ordered.index(model) if model in ordered else len(ordered)

    def main_condition(self, played: Collection[str]) -> str:
        """Return the condition that a model's ``acc`` measures: zero-shot if played, else the sweep's first; "" if none is."""
        return next((name for name in (ZERO_SHOT, *self.conditions, *sorted(played)) if name in played), "")


def is_mlflow(uri: str) -> bool:
    """Return True if a ``tracking.uri`` is MLflow's; ``none`` turns tracking off."""
    return uri != "none" and not uri.startswith(OTLP)


def parameters(sweep: Mapping[str, Any]) -> dict[str, str]:
    """Return names and settings of a resolved sweep, without engine options and keys."""
    params = {
        key: ", ".join(part["name"] if isinstance(part, dict) else str(part) for part in sweep[key])
        for key in ("models", "scenarios", "conditions", "protocols")
        if key in sweep
    }
    params |= {"seed": str(sweep["seed"])} if "seed" in sweep else {}
    for table in ("sampling", "selection"):
        params |= {f"{table}.{key}": str(value) for key, value in sweep.get(table, {}).items()}
    return params


def describe_dataset(name: str, source: str, samples: Mapping[str, Mapping[int, Sample]]) -> dict[str, Any]:
    """Return name, digest, source and counts of the samples that are played.

    The digest covers every field of every sample, so equal samples have equal digests wherever they are stored.
    """
    digest = sha256()
    for scenario in sorted(samples):
        for number in sorted(samples[scenario]):
            digest.update(repr(samples[scenario][number]).encode())
    counts = {scenario: len(numbered) for scenario, numbered in sorted(samples.items())}
    facts = {"digest": digest.hexdigest()[:8], "source": {"uri": source}}
    return {"name": f"{name}: {', '.join(counts)}", **facts, "profile": {"samples": sum(counts.values()), **counts}}
