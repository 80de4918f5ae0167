"""The sweep files that ship inside the program, by name; and where a sweep's data folder lies.

A file that the user has comes before one that ships with the same name.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

FOLDER = Path(__file__).parent
NO_SWEEPS = ("models.toml", "judges.toml", "starter.toml")
"""Files of this folder that are registries, or what ``init`` copies."""
STARTER = FOLDER / "starter.toml"


def shipped_sweeps() -> dict[str, Path]:
    """Every sweep that ships: ``demo``, ``ablations/budget`` ... -> its file."""
    files = [path for path in (*FOLDER.glob("*.toml"), *FOLDER.glob("*/*.toml")) if path.name not in NO_SWEEPS]
    return {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(files)}


def resolve_sweep(path: Path) -> Path:
    """The sweep file that is meant: the path itself, or the shipped sweep that ``demo``, ``demo.toml`` or ``sweeps/demo.toml``
    names where the working folder has no such file."""
    if path.exists() or path.is_absolute():
        return path
    return shipped_sweeps().get(_name(path), path)


def suggest_sweep(path: Path) -> str:
    """Suggest what to type instead of a missing sweep file."""
    close = get_close_matches(_name(path), list(shipped_sweeps()), n=1)
    return f"did you mean {close[0]!r}?" if close else "`proactive-sweep ls sweeps` lists those that ship"


def _name(path: Path) -> str:
    return path.as_posix().removeprefix("sweeps/").removesuffix(".toml")


def resolve_data(data: str, file: Path) -> str:
    """The data folder of a sweep file: beside the file where it is there, else as it stands (of the working folder)."""
    first = data_candidates(data, file)[:1]
    return str(first[0]) if first and first[0].exists() else data


def data_candidates(data: str, file: Path) -> tuple[Path, ...]:
    """Where a folder that a sweep file names without a root is looked for, in this order; nothing of an address.

    Beside a file that ships lies the program alone: its data are looked for in the working folder.
    """
    if "://" in data or Path(data).is_absolute():
        return ()
    ships = file.resolve().is_relative_to(FOLDER.resolve())
    return (Path(data),) if ships else (file.parent / data, Path(data))


def missing_data(data: str, path: Path) -> str:
    """Why a sweep file's data folder cannot be used and what to type, or an empty string where it is there or an address."""
    places = data_candidates(data, resolve_sweep(path))
    if not places or any(place.exists() for place in places):
        return ""
    looked = " and ".join(dict.fromkeys(str(place.absolute()) for place in places))
    return (
        f"there is no data folder {data!r} (looked for {looked}); `proactive-sweep data demo {data}` draws a small one,"
        " `proactive-sweep data fetch DIR` brings the published one"
    )


def copy_sweep_text(source: Path, file: Path) -> str:
    """The text of a sweep as a file of one's own: its name is the file's, so that it gets an output folder of its own."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("name = ")).replace("run FILE", f"run {file}")
