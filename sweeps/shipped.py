"""The sweep files that ship here and with installed packages, by name, and the data folder of a sweep file.

A user's file takes precedence over one that ships with the same name.
"""

import shlex
from difflib import get_close_matches
from pathlib import Path

from envs.installed import missing_extra, offers

FOLDER = Path(__file__).parent
NO_SWEEPS = (
    "models.toml", "newer_models.toml", "judges.toml", "differences.toml", "conditions.toml", "wordings.toml", "starter.toml",
)  # fmt: skip
"""Registries, other tables, and the file that ``init`` copies."""
STARTER = FOLDER / "starter.toml"


def shipped_sweeps() -> dict[str, Path]:
    """Return the files of the sweeps that ship by name: ``demo``, ``ablations/budget`` ..."""
    files = [path for path in (*FOLDER.glob("*.toml"), *FOLDER.glob("*/*.toml")) if path.name not in NO_SWEEPS]
    sweeps = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(files)}
    offered = {name: Path(offer.load()) / f"{name}.toml" for name, offer in offers("sweep", sweeps).items()}
    return dict(sorted((sweeps | offered).items(), key=lambda item: f"{item[0]}.toml"))


def resolve_sweep(path: Path) -> Path:
    """Return the path of an existing file, or else of the sweep that ships as ``demo``, ``demo.toml`` or ``sweeps/demo.toml``."""
    if path.exists() or path.is_absolute():
        return path
    return shipped_sweeps().get(_name(path), path)


def suggest_sweep(path: Path) -> str:
    """Suggest what to type instead of a missing sweep file."""
    if extra := missing_extra(_name(path)):
        return extra
    close = get_close_matches(_name(path), list(shipped_sweeps()), n=1)
    return f"did you mean {close[0]!r}?" if close else "`proactive-sweep ls sweeps` lists those that ship"


def _name(path: Path) -> str:
    return path.as_posix().removeprefix("sweeps/").removesuffix(".toml")


def resolve_data(data: str, file: Path) -> str:
    """Return an address or an absolute data folder as it is, and a relative one next to the sweep file if it exists there.

    A sweep that ships has its data in the working folder.
    """
    ships = file.resolve() in map(Path.resolve, shipped_sweeps().values())
    own = file.parent / data
    return str(own) if "://" not in data and not ships and own.exists() else data


def missing_data(data: str, path: Path) -> str:
    """Return why a sweep file's data folder is missing and what to type; empty if it exists or is an address."""
    paths = dict.fromkeys((str((path.parent / data).absolute()), str(Path(data).absolute())))
    if "://" in data or any(Path(candidate).exists() for candidate in paths):
        return ""
    draw = f"proactive-sweep data demo {shlex.quote(data)}"
    return (
        f"there is no data folder {data!r} (looked for {' and '.join(paths)}); `{draw}` draws a small one,"
        " `proactive-sweep data fetch DIR` downloads the published one"
    )


def copy_sweep_text(source: Path, file: Path) -> str:
    """Return the text of a sweep for a user's file, without its name, so that it gets a separate output folder."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("name = ")).replace("run FILE", f"run {file}")
