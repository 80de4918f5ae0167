"""The sweep that a command line describes: a file with options, or models alone, whose sweep is written as a file."""

import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actors.node.nvml import DriverUnavailable, devices
from envs.errors import UserError
from envs.installed import install_line, load_function, offers
from orchestrator.cli.options import required_name
from orchestrator.cli.printing import print_lines
from sweeps.load import build, load
from sweeps.own_model import Entry, Machine, read_entries
from sweeps.spec import Sweep
from sweeps.sweep_file import require_data
from sweeps.values import split_names

DATA_VARIABLE = "PROACTIVE_SWEEP_DATA"
DRAWN = "drawn demo pictures: not evidence about real photographs"
LIMIT = 20
"""Samples of each scenario if a line names no sweep and no limit."""
CONDITIONS = "zero-shot,hint"
FREE_SHARE = 0.9
"""Share of a GPU's memory that must be unused for it to count as free."""


def load_sweep(
    path: Path, overrides: Sequence[str], output: str | None, models: Sequence[str] = (), limit: int | None = None
) -> Sweep:
    """Load the sweep that the options describe; raises UserError. ``limit`` is of multiple choice, if that is played."""
    entries = read_models(models) if models else []
    sweep = load(path, overrides, entries)
    if limit is not None:
        is_open_ended = all(protocol.is_open_ended for protocol in sweep.protocols)
        table = "open_ended.selection" if is_open_ended else "selection"
        sweep = load(path, [f"{table}.limit={limit}", *overrides], entries)
    return sweep if output is None else sweep.model_copy(update={"output": required_name(output)})


def read_models(sources: Sequence[str]) -> list[Entry]:
    """Return the entries of ``--model`` for the free GPUs and the engines of this machine; raises UserError."""
    from orchestrator.datasets.sources import FetchError, read_hub

    try:
        free = tuple(gpu.total for gpu in devices() if gpu.free >= FREE_SHARE * gpu.total)
    except DriverUnavailable:
        free = ()
    machine = Machine(free, find_spec("vllm") is not None)
    try:
        entries = [entry for source in sources for entry in read_entries(source, machine, read_hub)]
    except FetchError as problem:
        raise UserError(f"--model: {problem}; name a folder instead") from None
    names = [entry if isinstance(entry, str) else entry["name"] for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        remedy = "rename a folder, or name a file with a [[model]] for each"
        raise UserError(f"--model: two models have the name {twice!r}; {remedy}")
    return entries


def write_line(sources: Sequence[str], options: Mapping[str, Any], output: str | None, file: Path | None) -> Path:
    """Write the sweep of models alone into a file and return it; an earlier one of the same line is left as it is.

    Raises UserError if the file is another line's, or the line cannot be played.
    """
    import tomli_w

    from orchestrator.storage import safe_write

    entries = read_models(sources)
    names = [entry if isinstance(entry, str) else entry["name"] for entry in entries]
    folder = output or f"outputs/{names[0]}"
    path = file or Path(f"outputs/{names[0]}.toml" if "://" in folder else f"{folder.rstrip('/')}.toml")
    head = f"# {_describe_line(sources, options, output)}\n"
    if path.exists():
        if not path.read_text(encoding="utf-8", errors="replace").startswith(head):
            command = f"proactive-sweep run {shlex.quote(str(path))}"
            raise UserError(f"{path} is another line's sweep; type `{command}` to resume it, or name another --output")
        return path
    table = {
        "models": names,
        "scenarios": split_names(options.get("scenarios") or "all"),
        "conditions": split_names(options.get("conditions") or CONDITIONS),
        "output": folder,
        "selection": {"limit": options.get("limit") or LIMIT},
        "model": [entry for entry in entries if not isinstance(entry, str)],
    }
    build({"data": ".", **table}, "the command line")  # a mistyped line leaves no file behind
    data = find_data(options.get("data", ""), path.with_suffix(""))
    require_data(data, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    safe_write.write(path, (head + tomli_w.dumps({"data": data, **{k: v for k, v in table.items() if v}})).encode())
    return path


def _describe_line(sources: Sequence[str], options: Mapping[str, Any], output: str | None) -> str:
    """Return the command that plays these models without a sweep file."""
    words = [word for source in sources for word in ("--model", source)]
    for name, value in {**options, "output": output}.items():
        words += [f"--{name}", str(value)] if value else []
    return shlex.join(["proactive-sweep", "run", *words]).replace("\n", "\\n")


def find_data(data: str, folder: Path) -> str:
    """Return the benchmark folder: as named, as the environment names it, or a demo drawn below ``folder``."""
    if named := data or os.environ.get(DATA_VARIABLE, ""):
        return named if "://" in named else os.path.abspath(named)
    if "data.demo" not in offers("command"):
        wanted = f"name the benchmark by --data DIR or {DATA_VARIABLE}, or install the drawn one"
        raise UserError(f"there is no data to play: {wanted}: {install_line('demo')}")
    target = folder / "demo-data"
    if not target.exists():
        load_function("command", "data.demo")(target)
    print_lines([f"{target}: {DRAWN}"])
    return os.path.abspath(target)
