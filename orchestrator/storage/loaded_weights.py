"""The weights that a run has loaded (``weights.json``): all episodes of a model come from the same weights."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from actors.engine.weights import comes_from_hub, same_weights, weights_identity
from orchestrator.storage import checksums
from orchestrator.storage.run_folder import to_json
from sweeps.checkpoint import COMMIT, checkpoint_folder
from sweeps.spec import ModelSpec

FILE = "weights.json"


class Weights(TypedDict):
    """The weights of one model."""

    source: str
    revision: str
    """As in the model's entry; empty if it names none."""
    weights: str
    """The commit that was loaded, or the hash of a folder (``actors.engine.weights.weights_identity``)."""


class LoadedWeights:
    """The record of one run folder, by model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models: dict[str, Weights] = {}
        """Model -> its weights; empty for a folder of an earlier version, or if the file is damaged."""
        with suppress(OSError, ValueError):
            self.models = TypeAdapter(dict[str, Weights]).validate_json(checksums.read_verified(folder / FILE))

    def pin(self, model: ModelSpec) -> ModelSpec:
        """Return the entry with the commit that the run has loaded before, so that a moved branch changes nothing.

        The folder may come from someone else, so for ``trust_remote_code`` the commit must be on this machine already.
        """
        weights = self._recorded(model)
        pinned = model.model_copy(update={"revision": weights})
        usable = COMMIT.fullmatch(weights) and (not model.trust_remote_code or checkpoint_folder(pinned) is not None)
        return pinned if usable else model

    def add(self, model: ModelSpec, weights: str) -> str:
        """Record what a worker has loaded; return why it may not play, or an empty string.

        ``model`` is the entry as the sweep has it; ``weights`` is empty if the worker could not identify them.
        """
        before = self._recorded(model)
        if weights and before and not same_weights(before, weights):
            return self._refusal(model, before, weights, "run the same command again")
        if weights and not before:
            record = Weights(source=model.source, revision=model.revision, weights=weights)
            self._write({**self.models, model.name: record})
        return ""

    def forget(self, models: Collection[str]) -> None:
        """Drop the records of these models, which have no stored episode, so that other weights may be loaded for them."""
        if self.models.keys() & set(models):
            self._write({name: weights for name, weights in self.models.items() if name not in models})

    def mismatch(self, model: ModelSpec) -> str:
        """Return why this machine cannot continue with the recorded weights, and what to type; empty if it can."""
        before = self._recorded(model)
        if not before or same_weights(before, weights_identity(self.pin(model))):
            return ""
        remedy = f"type `hf download {model.source} --revision {before}`"
        return self._refusal(model, before, local, remedy) if (local := weights_identity(model)) else ""

    def differs_from(self, other: Self, model: ModelSpec) -> bool:
        """Return True if both runs have loaded the model, but with different weights."""
        own, theirs = self._recorded(model), other._recorded(model)
        return bool(own and theirs) and not same_weights(own, theirs)

    def _recorded(self, model: ModelSpec) -> str:
        """Return the recorded weights; empty if there are none, or if the entry's source or revision has changed since."""
        record = self.models.get(model.name)
        if record is None or not model.is_local:
            return ""
        same = (record["source"], record["revision"]) == (model.source, model.revision)
        return record["weights"] if same else ""

    def _refusal(self, model: ModelSpec, before: str, now: str, for_hub: str) -> str:
        remedy = for_hub if comes_from_hub(model) and COMMIT.fullmatch(before) else "restore its files"
        return (
            f"{self.folder} was played with {shorten(before)} of {model.name}, but {model.source} has {shorten(now)} on this"
            f" machine; {remedy}, or pass another --output"
        )

    def _write(self, models: dict[str, Weights]) -> None:
        self.models = models
        checksums.write(self.folder / FILE, to_json(models))


def shorten(weights: str) -> str:
    """Return ``revision 0123456789ab``, or ``weights sha256:0123456789ab.01234567`` for a folder."""
    parts = (part[:19] + part[71:80] if part.startswith("sha256:") else part[:12] for part in weights.split("+"))
    return f"{'weights' if 'sha256:' in weights else 'revision'} {'+'.join(parts)}"
