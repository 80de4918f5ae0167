"""Reads sweep files as TOML tables, by path or by the name of one that ships here or with an installed package.

An error is one sentence with file, line and what to type. A user's file takes precedence over one that ships with its name.
"""

import re
import shlex
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from envs import regular
from envs.errors import UserError
from envs.installed import missing_extra, offers
from sweeps.values import FOLDER

NO_SWEEPS = (
    "models.toml", "newer_models.toml", "judges.toml", "differences.toml", "conditions.toml", "wordings.toml", "starter.toml",
    "result_columns.toml", "engine_options.toml", "checkpoints.toml",
)  # fmt: skip
"""Registries, other tables, and the file that ``init`` copies."""
LARGEST = 1 << 20
"""Most bytes of a sweep file."""


class SweepError(UserError, ValueError):
    """A sweep file or option that the user must correct."""


RESOLVED = "sweep.resolved.toml"
"""The sweep in a run folder, with every default: models and conditions are tables instead of names."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Names of repositories on the Hub: OWNER/NAME."""


def read_sweep(path: Path) -> dict[str, Any]:
    """Read a sweep file, or the sweep of that name that ships, and resolve its data folder; raises SweepError.

    A relative data folder is next to the file or, if it does not exist there, in the working folder. The output of a run
    folder's sweep is that folder, wherever it is now.
    """
    file = resolve_sweep(path)
    is_hub_id = HUB_ID.fullmatch(str(path)) and path.suffix != ".toml" and not (path.parent.exists() or file.exists())
    if is_hub_id or str(path).startswith(("http:/", "https:/")) or (path / "config.json").is_file():
        line = f"proactive-sweep run --model {shlex.quote(str(path).replace(':/', '://'))}"
        raise SweepError(f"{path} is a model, not a sweep; type `{line}`")
    if (path / RESOLVED).is_file():
        raise SweepError(f"{path} is a run folder; name its sweep: {shlex.quote(str(path / RESOLVED))}")
    table = read_toml(file)
    if file.name == RESOLVED:
        table["output"] = str(file.parent)
    for part in (table, table.get("train")):
        if isinstance(part, dict) and isinstance(data := part.get("data"), str):
            part["data"] = resolve_data(data, file)
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raises SweepError with file and line."""
    try:
        return tomllib.loads(regular.read_bytes(path, LARGEST).decode())
    except FileNotFoundError:
        raise SweepError(f"there is no sweep file {path}; {suggest_sweep(path)}") from None
    except OSError as problem:
        raise SweepError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as problem:
        raise SweepError(f"{path} is not TOML: {problem}") from None


def shipped_sweeps() -> dict[str, Path]:
    """Return the files of the sweeps that ship by name: ``demo``, ``ablations/budget`` ..."""
    files = [path for path in (*FOLDER.glob("*.toml"), *FOLDER.glob("*/*.toml")) if path.name not in NO_SWEEPS]
    sweeps = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(files)}
    offered = {name: Path(offer.load()) / f"{name}.toml" for name, offer in offers("sweep", sweeps).items()}
    return dict(sorted((sweeps | offered).items(), key=lambda item: f"{item[0]}.toml"))


def resolve_sweep(path: Path) -> Path:
    """Return the path of an existing file, or else of the sweep that ships as ``demo``, ``demo.toml`` or ``sweeps/demo.toml``."""
    if path.is_file() or path.is_absolute():
        return path
    return shipped_sweeps().get(_name(path), path)


def suggest_sweep(path: Path) -> str:
    """Suggest what to type instead of a missing sweep file."""
    if extra := missing_extra(_name(path)):
        return extra
    if path.name and (file := path.with_suffix(".toml")).is_file():
        return f"did you mean {file}?"
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
    draw = f"`proactive-sweep data demo {shlex.quote(data)}` draws a small one"
    fetch = "`proactive-sweep data fetch DIR` downloads the published one"
    return f"there is no data folder {data!r} (looked for {' and '.join(paths)}); {draw}, {fetch}"


def require_data(data: str, path: Path) -> None:
    """Raise SweepError, naming the paths tried, if the data folder of a sweep file is missing."""
    if why := missing_data(data, path):
        raise SweepError(why)


def override_key(table: dict[str, Any], override: str) -> None:
    """Set a nested key by ``selection.limit=5``; a value that is not TOML is text."""
    key, equals, text = override.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise SweepError(f"--set {override!r} must look like key=value, for example --set selection.limit=5")
    *path, last = (part.strip() for part in key.split("."))
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SweepError(f"--set {override!r}: {part} is a value, not a table")
    try:
        table[last] = tomllib.loads(f"value = {text}")["value"]
    except RecursionError:
        raise SweepError(f"--set: a value of {len(text):,} characters is nested too deep") from None
    except tomllib.TOMLDecodeError:
        table[last] = text
