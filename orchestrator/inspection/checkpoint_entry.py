"""Model entries for the names of a command line: of a sweep, of those that ship, or of a checkpoint's folder."""

from collections.abc import Sequence
from pathlib import Path

from actors.trial.certificate import ENGINES
from sweeps.checkpoint import with_limits
from sweeps.load import SweepError, find_models
from sweeps.spec import ModelSpec
from sweeps.values import slug


def checkpoint_specs(
    names: Sequence[str], sweep: Path | None, backend: str = "", judging: bool = False
) -> list[ModelSpec]:
    """Return the entries of names or checkpoint folders; without names, those of the sweep file or all shipped ones.

    ``judging`` includes judges. Raises SweepError.
    """
    if not names:
        return find_models([], sweep, judging)
    return [checkpoint_spec(name, backend) or find_models([name], sweep, judging)[0] for name in names]


def own_entry(name: str, sweep: Path | None, backend: str = "") -> ModelSpec | None:
    """Return the model that a sweep file plays under this name; None without a file or if it plays no such model.

    Raises SweepError.
    """
    played = {entry.name: entry for entry in find_models([], sweep)} if sweep and name else {}
    return _on_engine(played[name], backend) if name in played else None


def checkpoint_spec(model: str, backend: str = "") -> ModelSpec | None:
    """Return an entry for a checkpoint's folder, or the named entry with ``backend``; None for a name without a backend.

    Raises SweepError for an unknown backend or a folder without ``config.json``.
    """
    if backend and backend not in ENGINES:
        raise SweepError(f"--backend must be {' or '.join(ENGINES)}, not {backend!r}")
    if not model or not Path(model).is_dir() or any(model == shipped.name for shipped in find_models([])):
        return _on_engine(find_models([model])[0], backend) if model and backend else None
    if not (Path(model) / "config.json").is_file():
        raise SweepError(f"{model} is a folder without config.json; name the folder of a checkpoint")
    name = slug(Path(model).resolve().name)
    entry = ModelSpec(name=name, source=model, backend="transformers", gpus=0, max_images=256)
    return _on_engine(entry, backend or "transformers")


def _on_engine(entry: ModelSpec, backend: str) -> ModelSpec:
    """Return the entry on another engine, with the limits that its checkpoint has there."""
    return with_limits(entry.model_copy(update={"backend": backend, "limits": ()})) if backend else entry
