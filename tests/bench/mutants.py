"""Mutation run: change one operator, constant or branch of a room at a time, and see whether the room's fast tests notice.

    python -m tests.bench.mutants [--sample 20] [--seed 0] [FOLDER ...]        (`make mutants`)

Works in a copy of the tree. pytest-testmon notes once which test runs which function, and then runs only those that a change
can reach. The sample is drawn by (seed, room). A report, not a verdict: a survivor may be a change that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.test_rooms import MODULES, ROOT, room

TIMEOUT_S = 120
"""Seconds of one mutant's tests; a change that makes them hang counts as noticed."""
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
"""Operator -> the one in its place."""
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "format_spec")
SKIPPED_NODES = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""What only checks, or only people read: messages of exceptions, and (below) docstrings."""


@dataclass(frozen=True)
class Mutant:
    """One change of a file below the root."""

    path: Path
    line: int
    change: str
    """``before -> after``, as source."""
    source: str
    """The file with the change made."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def list_mutants(path: Path) -> Iterator[Mutant]:
    """Yield every change of a file, in the order of its source."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for parent, field, index, old in list(_places(tree)):
        place: Any = parent.__dict__ if index is None else getattr(parent, field)
        at: Any = field if index is None else index
        for new in _replacements(old, field):
            place[at] = ast.copy_location(new, old) if hasattr(old, "lineno") else new
            source = ast.unparse(ast.fix_missing_locations(tree))
            place[at] = old
            change = " -> ".join(" ".join(ast.unparse(node).split())[:100] for node in (old, new))
            yield Mutant(path, getattr(old, "lineno", 0), change, source)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield parent, field, index in that field and node of every node below this one."""
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            skipped = docstring or field in SKIPPED_FIELDS or isinstance(child, SKIPPED_NODES)
            if isinstance(child, ast.AST) and not skipped:
                yield node, field, index, child
                yield from _places(child)


def _replacements(node: ast.AST, field: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            yield _copy_with(node, ops=[SWAPPED[type(op)]()])
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in SWAPPED:
            yield _copy_with(node, op=SWAPPED[type(node.op)]())
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.Constant(value=str()):
            yield ast.Constant(f"{node.value}XX")
        case ast.Return() if node.value is not None:
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Name() | ast.Call() | ast.Attribute() if field in ("test", "ifs"):
            yield ast.UnaryOp(ast.Not(), node)


def _copy_with(node: ast.AST, **fields: object) -> ast.AST:
    copied = copy(node)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied


@contextmanager
def copy_tree() -> Iterator[Path]:
    """Yield a copy of the files that git lists."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in (name for name in listed.splitlines() if (ROOT / name).is_file()):
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(folder, name))
        yield Path(folder)


def run_tests(tree: Path, tests: str, *options: str) -> bool:
    """Run fast tests of a copy; return whether all pass."""
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "--testmon", *options]
    command += ["-m", "not slow and not long", tests]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return False
    # 5: no test can see the change
    return done.returncode in (0, 5)


def run_room(folder: str, sample: int, seed: int) -> str:
    """Change a sample of a room's code, print what no test noticed, and return the room's row of the table."""
    paths = sorted(path.relative_to(ROOT) for path in MODULES.values() if path.is_relative_to(ROOT / folder))
    mutants = [mutant for path in paths for mutant in list_mutants(path)]
    chosen = Random(f"{seed}/{folder}").sample(mutants, min(sample, len(mutants)))
    survivors, tests = list[Mutant](), f"tests/{folder}"
    with copy_tree() as tree:
        if not run_tests(tree, tests):
            return f"| {folder} | its tests fail without any change | | |"
        for mutant in chosen:
            (tree / mutant.path).write_text(mutant.source, encoding="utf-8")
            if run_tests(tree, tests, "--testmon-nocollect"):
                survivors.append(mutant)
            shutil.copy(ROOT / mutant.path, tree / mutant.path)
    print(*survivors, sep="\n", file=sys.stderr, flush=True)
    caught = len(chosen) - len(survivors)
    return f"| {folder} | {len(chosen)} | {caught} | {100 * caught / max(1, len(chosen)):.0f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each room."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", help="rooms, as envs or orchestrator/storage; left out, all of the core")
    parser.add_argument("--sample", type=int, default=20, help="mutants of a room")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    options = parser.parse_args(arguments)
    rooms = {name.replace(".", "/") for name in map(room, MODULES) if name}
    rooms = {name for name in rooms if (ROOT / "tests" / name).is_dir()}
    print("| room | mutants | caught | percent |\n| --- | ---: | ---: | ---: |", flush=True)
    for folder in options.folders or sorted(rooms):
        print(run_room(folder.rstrip("/"), options.sample, options.seed), flush=True)


if __name__ == "__main__":
    main()
