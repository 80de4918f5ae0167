"""Figures of the code's structure: lines by room beside their limits, arrows between rooms, circles, and lengths of functions.

``python -m tests.bench.structure`` (``make structure``) prints them and fails if a total is above its number in
``structure.toml``. That number only goes down, to the limit beside it; ``--lower`` writes today's totals there.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tomli_w

from tests.test_rooms import MODULES, ORDER, ROOT, circle, imported_names, room

LIMITS = Path(__file__).with_name("structure.toml")
COUNTED = (".py", ".js", ".css", ".j2")
CORE = ("envs", "sweeps", "actors", "orchestrator", "proactive_sweep")
LINE = 60
"""Most characters that a line which is not blank may have on average."""


def count_lines() -> dict[str, Counter[str]]:
    """Return the lines of ``core``, ``extras`` and ``tests``, each by folder."""
    lines: dict[str, Counter[str]] = {"core": Counter(), "extras": Counter(), "tests": Counter()}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if path.suffix not in COUNTED or parts[0] not in (*CORE, "extras", "tests") or "build" in parts:
            continue
        total = "tests" if "tests" in parts else "extras" if parts[0] == "extras" else "core"
        folder = "/".join(parts[: min(2, len(parts) - 1)])
        lines[total][folder] += path.read_text(encoding="utf-8").count("\n")
    return lines


def sum_totals(lines: dict[str, Counter[str]]) -> dict[str, int]:
    """Return the totals that have a limit: the core, core and extras, tests."""
    sums = {name: folders.total() for name, folders in lines.items()}
    return {"core": sums["core"], "product": sums["core"] + sums["extras"], "tests": sums["tests"]}


def exceeded(totals: dict[str, int], limits: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence for each total above the number that is kept in the tree."""
    return [
        f"{name} has {lines:,} lines, and structure.toml allows {limits[name]['now']:,}: delete as much as you add"
        for name, lines in totals.items()
        if lines > limits[name]["now"]
    ]


def arrows() -> set[tuple[str, str]]:
    """Return the pairs of importing room and imported room, inner imports included."""
    pairs = ((room(name), room(used)) for name, path in MODULES.items() for used in imported_names(path))
    return {(importer, target) for importer, target in pairs if importer and target and importer != target}


def functions() -> Iterator[tuple[int, str]]:
    """Yield the lines of every function and method, docstring included, with its place."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{name}.{node.name}"


def mean_line() -> float:
    """Return the mean length of the product's lines that are not blank."""
    texts = (path.read_text(encoding="utf-8").splitlines() for path in MODULES.values())
    return statistics.fmean(len(line) for lines in texts for line in lines if line.strip())


def print_structure() -> None:
    """Print arrows, circles, and the lengths of functions, files and lines."""
    pairs = arrows()
    backwards = [(importer, target) for importer, target in pairs if ORDER.index(target) > ORDER.index(importer)]
    graph = {name: imported_names(path) & MODULES.keys() - {name} for name, path in MODULES.items()}
    sizes = sorted(functions())
    lengths = [length for length, _ in sizes]
    files = sorted((len(path.read_text(encoding="utf-8").splitlines()), name) for name, path in MODULES.items())
    print(f"rooms {len(ORDER)}, files {len(files)}, mean line {mean_line():.1f} of {LINE} characters")
    print(f"arrows between rooms {len(pairs)}, backwards {len(backwards)} {backwards or ''}".rstrip())
    print(f"circle between files: {' -> '.join(circle(graph)) or 'none'}")
    print(
        f"functions {len(sizes):,}: median {statistics.median(lengths):g} lines,"
        f" p90 {statistics.quantiles(lengths, n=10)[-1]:g}, longest {sizes[-1][0]} ({sizes[-1][1]})"
    )
    print(f"longest files: {', '.join(f'{name} {lines}' for lines, name in files[:-4:-1])}")


def main() -> None:
    """Print the figures; exit with a sentence for each total above its number."""
    lines, limits = count_lines(), tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    totals = sum_totals(lines)
    if "--lower" in sys.argv:
        for name, total in totals.items():
            limits[name]["now"] = min(total, limits[name]["now"])
        LIMITS.write_text(tomli_w.dumps(limits), encoding="utf-8")
    if "--quiet" not in sys.argv:
        for folders in lines.values():
            print("\n".join(f"{count:7,} {folder}" for folder, count in folders.most_common()))
        print_structure()
    for name, total in totals.items():
        print(f"{total:7,} {name}: at most {limits[name]['now']:,} now, {limits[name]['limit']:,} in the end")
    if problems := exceeded(totals, limits):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
