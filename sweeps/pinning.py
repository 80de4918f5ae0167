"""The table ``[revisions]`` of a sweep file: the commits of models' weights, by name."""

from collections.abc import Collection, Sequence
from typing import Any

from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError
from sweeps.validation import find_name


def pin_models(models: Sequence[ModelSpec], table: Any, known: Collection[str], where: str) -> list[ModelSpec]:
    """Return the entries with the revisions of a ``[revisions]`` table.

    ``known`` are the names that the table may hold, also of models that are not played. Raises SweepError.
    """
    if not isinstance(table, dict) or not all(isinstance(value, str) and value for value in table.values()):
        raise SweepError(
            f'{where}: revisions is a table of models and commits: [revisions], then "qwen2.5-vl-7b" = "..."'
        )
    names = dict.fromkeys([*known, *(model.name for model in models)])
    revisions = {find_name(name, names, "model", f"{where}: revisions"): revision for name, revision in table.items()}
    if weightless := [m for m in models if m.name in revisions and not m.is_local]:
        name, backend = weightless[0].name, weightless[0].backend
        raise SweepError(f"{where}: revisions.{name}: its backend is {backend}, which loads no weights; leave it out")
    return [m.model_copy(update={"revision": revisions[m.name]}) if m.name in revisions else m for m in models]
