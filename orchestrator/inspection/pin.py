"""``models pin``: the commits of a sweep's weights, written into its file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.engine.weights import cached_commit, is_pinned
from actors.text.printable import list_first
from envs import regular
from orchestrator.datasets.hub import Repository
from orchestrator.datasets.remote_files import FetchError
from orchestrator.storage import atomic_write
from sweeps.load import load
from sweeps.pinning import write_revisions
from sweeps.shipped import resolve_sweep
from sweeps.spec import ModelSpec
from sweeps.sweep_file import LARGEST, SweepError


class Pin(NamedTuple):
    """The commit of one model, or why there is none."""

    model: ModelSpec
    commit: str
    """Empty if it was not found."""
    note: str
    """Where the commit is from, or why there is none."""

    def __str__(self) -> str:
        at = f" at {self.model.revision}" if self.model.revision else ""
        outcome = f"{self.commit} ({self.note})" if self.commit else f"not pinned: {self.note}"
        return f"{self.model.name}: {self.model.source}{at}: {outcome}"


def pin_sweep(path: Path) -> Iterator[Pin]:
    """Write the commits of unpinned models into a sweep file, and yield them; raises SweepError."""
    if not path.exists() and (shipped := resolve_sweep(path)) != path:
        raise SweepError(
            f"{path} ships with the program; `proactive-sweep init FILE --from {shipped.stem}` copies it first"
        )
    sweep = load(path)
    judges = [sweep.judge.model] if sweep.judge else []
    pins = [find_commit(model) for model in unpinned([*sweep.models, *judges])]
    revisions = {pin.model.name: pin.commit for pin in pins if pin.commit}
    if revisions:
        text = regular.read_bytes(path, LARGEST).decode()
        try:
            atomic_write.write(path.resolve(), write_revisions(text, revisions, str(path)).encode())
        except OSError as problem:
            raise SweepError(f"{path} cannot be written: {problem.strerror or problem}") from None
    yield from pins


def unpinned(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models whose weights a later run may load from another commit, each name once."""
    return list({model.name: model for model in models if not is_pinned(model)}.values())


def describe_unpinned(models: Sequence[ModelSpec], sweep: str) -> list[str]:
    """Return one sentence on the unpinned models; empty if all are pinned."""
    if not (names := [model.name for model in unpinned(models)]):
        return []
    return [
        f"not pinned: {list_first(names)}: a new run loads whatever commit the Hub has then; `proactive-sweep models "
        f"pin {sweep}` writes the present commits into the sweep file"
    ]


def find_commit(model: ModelSpec) -> Pin:
    """Return the commit of a model's revision: in this machine's cache, else on the Hub."""
    if commit := cached_commit(model):
        return Pin(model, commit, "in this machine's cache")
    try:
        return Pin(model, Repository(model.source, model.revision or "main", "model").commit, "on the Hub")
    except (FetchError, ModuleNotFoundError) as problem:
        return Pin(model, "", str(problem))
