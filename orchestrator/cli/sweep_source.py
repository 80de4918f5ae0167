"""The sweep that a command line describes: a file with options, or models alone, whose sweep is written as a file."""

import os
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

from actors.node.nvml import DriverUnavailable, devices
from envs.errors import UserError
from envs.installed import install_line, load_function, offers
from orchestrator.cli.options import required_name
from orchestrator.cli.printing import print_lines
from orchestrator.storage import lock, safe_write
from sweeps.load import build, load
from sweeps.own_model import Entry, Machine, read_entries
from sweeps.spec import Sweep
from sweeps.sweep_file import override_key, require_data
from sweeps.values import split_names

DATA_VARIABLE = "PROACTIVE_SWEEP_DATA"
DEFAULTS = {"--limit": "20", "--conditions": "zero-shot,hint", "--scenarios": "all"}
"""Options of a line that names no sweep; ``run SWEEP --update`` changes them."""
MARK = "# as written: "
"""Begins the comment with the checksum of the lines below it, by which an edited file is recognized."""
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


def write_line(
    sources: Sequence[str], options: dict[str, Any], file: Path | None, overrides: Sequence[str] = ()
) -> Path:
    """Write the sweep of models alone into a file, unless this line's is there, and return it; raises UserError."""
    import tomli_w

    from orchestrator.planning.build_plan import build_plan

    entries = read_models(sources)
    names = [entry if isinstance(entry, str) else entry["name"] for entry in entries]
    folder = options.get("output") or f"outputs/{file.stem if file else names[0]}"
    path = file or Path(f"outputs/{names[0]}.toml" if "://" in folder else f"{folder.rstrip('/')}.toml")
    words = [word for source in sources for word in ("--model", source)]
    for name, value in options.items():
        words += [f"--{name}", str(value)] if value else []
    head = shlex.join(["proactive-sweep", "run", *words]).replace("\n", "\\n")
    if path.exists() and _is_of_line(path, head):
        return path
    table = {
        "models": names,
        "scenarios": split_names(options.get("scenarios") or DEFAULTS["--scenarios"]),
        "conditions": split_names(options.get("conditions") or DEFAULTS["--conditions"]),
        "output": folder,
        "selection": {"limit": options.get("limit") or int(DEFAULTS["--limit"])},
        "model": [entry for entry in entries if not isinstance(entry, str)],
    }
    text = tomli_w.dumps({key: value for key, value in table.items() if value})
    table["data"] = "."
    for override in overrides:
        override_key(table, override)
    sweep = build(table, "the command line")  # a mistyped line leaves no file behind
    data = find_data(options.get("data", ""), path.with_suffix(""))
    require_data(data, path)
    if "://" not in data:
        build_plan(sweep.model_copy(update={"data": data}))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = tomli_w.dumps({"data": data}) + text
    safe_write.write(path, f"# {head}\n{MARK}{crc32(text.encode()):08x}\n{text}".encode())
    return path


def _is_of_line(path: Path, line: str) -> bool:
    """Return True for this line's file, and False for one to replace; raises UserError, with the way on, for any other."""
    head, _, rest = path.read_text(encoding="utf-8", errors="replace").removeprefix("# ").partition("\n")
    mark, _, text = rest.partition("\n")
    before, now = _read_options(head), _read_options(line)
    played = dict(before).get("--output", str(path.with_suffix("")))
    is_played = "://" in played or lock.holder(Path(played)) or any(Path(played).glob("*/*part-*"))
    if before == now or (not is_played and mark == f"{MARK}{crc32(text.encode()):08x}"):
        return before == now
    changed, words = sorted({name for name, _ in {*before} ^ {*now}}), ["proactive-sweep", "run", str(path)]
    if DEFAULTS.keys() >= {*changed}:
        words += [*(word for name in changed for word in (name, (DEFAULTS | dict(now))[name])), "--update"]
    origin = f"was written by `{head}`" if before else "is another sweep"
    reuse = f" (--reuse {shlex.quote(played)} takes its episodes over)" if is_played else ""
    raise UserError(f"{path} {origin}; type `{shlex.join(words)}` to go on with it, or name another --output{reuse}")


def _read_options(line: str) -> list[tuple[str, str]]:
    """Return the options of a line that ``write_line`` wrote, with folders as absolute paths; empty for other text."""
    try:
        words = shlex.split(line) if line.startswith("proactive-sweep run ") else []
    except ValueError:
        return []
    named = zip(words[2::2], words[3::2], strict=False)
    return [(k, os.path.abspath(v) if os.path.isdir(v) and k not in DEFAULTS else v) for k, v in named]


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
    print_lines([f"{target}: drawn demo pictures: not evidence about real photographs"])
    return os.path.abspath(target)
