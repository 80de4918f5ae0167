"""The table ``[revisions]`` of a sweep file: the commits of models' weights, by name."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError
from sweeps.validation import find_name

HEADER = re.compile(r"\s*\[\s*revisions\s*\]\s*(#.*)?")
COMMENT = "# commits of the weights; `proactive-sweep models pin` writes them"


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


def write_revisions(text: str, revisions: Mapping[str, str], where: str) -> str:
    """Return the text of a sweep file with these revisions in its table, which is added at the end if it has none.

    Every other character stays. Raises SweepError if the table is written in a form that cannot be edited in this way.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(newline)
    header = next((number for number, line in enumerate(lines) if HEADER.fullmatch(line)), None)
    if header is None:
        while lines and not lines[-1].strip():
            lines.pop()
        header = len(lines) + 1
        lines += ["", f"[revisions]  {COMMENT}", ""]
    for name, revision in revisions.items():
        _set_revision(lines, header, name, revision)
    edited = newline.join(lines)
    if not _holds_only(edited, text, revisions):
        table = ", ".join(f'{_key(name)} = "{revision}"' for name, revision in revisions.items())
        raise SweepError(
            f"{where}: its revisions cannot be edited here; write them yourself: revisions = {{ {table} }}"
        )
    return edited


def _set_revision(lines: list[str], header: int, name: str, revision: str) -> None:
    """Replace the model's line below the header, or add one after the last line of the table."""
    pattern = re.compile(rf"""(\s*["']?{re.escape(name)}["']?\s*=\s*)("[^"]*"|'[^']*')(.*)""")
    last = header
    for number in range(header + 1, len(lines)):
        if lines[number].lstrip().startswith("["):
            break
        if match := pattern.fullmatch(lines[number]):
            lines[number] = f'{match[1]}"{revision}"{match[3]}'
            return
        if lines[number].strip():
            last = number
    lines.insert(last + 1, f'{_key(name)} = "{revision}"')


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'


def _holds_only(edited: str, text: str, revisions: Mapping[str, str]) -> bool:
    """Return True if the edited text differs from the original only in these revisions."""
    before = tomllib.loads(text)
    try:
        after = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        return False
    return after == {**before, "revisions": {**before.get("revisions", {}), **revisions}}
