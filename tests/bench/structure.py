"""Figures of the code's structure, from its syntax trees: rooms, arrows between them, circles, and the length of functions.

``python -m tests.bench.structure`` (``make structure``) prints them for the product as it stands; an arrow is one room that
imports another, counted once, and an arrow against ``tests.test_rooms.ORDER`` or a circle between files is listed by name.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator

from tests.test_rooms import MODULES, ORDER, circle, imported_names, room


def arrows() -> set[tuple[str, str]]:
    """(importing room, imported room), inner imports included."""
    pairs = ((room(name), room(used)) for name, path in MODULES.items() for used in imported_names(path))
    return {(importer, target) for importer, target in pairs if importer and target and importer != target}


def functions() -> Iterator[tuple[int, str]]:
    """Lines of every function and method, docstring included, with its place."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{name}.{node.name}"


def main() -> None:
    pairs = arrows()
    backwards = [(importer, target) for importer, target in pairs if ORDER.index(target) > ORDER.index(importer)]
    graph = {name: imported_names(path) & MODULES.keys() - {name} for name, path in MODULES.items()}
    sizes = sorted(functions())
    lengths = [length for length, _ in sizes]
    files = sorted((len(path.read_text(encoding="utf-8").splitlines()), name) for name, path in MODULES.items())

    print(f"rooms {len(ORDER)}, files {len(files)}, lines {sum(lines for lines, _ in files):,}")
    print(f"arrows between rooms {len(pairs)}, backwards {len(backwards)} {backwards or ''}".rstrip())
    print(f"circle between files: {' -> '.join(circle(graph)) or 'none'}")
    print(
        f"functions {len(sizes):,}: median {statistics.median(lengths):g} lines,"
        f" p90 {statistics.quantiles(lengths, n=10)[-1]:g}, longest {sizes[-1][0]} ({sizes[-1][1]})"
    )
    print(f"longest files: {', '.join(f'{name} {lines}' for lines, name in files[:-4:-1])}")


if __name__ == "__main__":
    main()
