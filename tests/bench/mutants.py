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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random

from tests.test_rooms import MODULES, ROOT, room

TIMEOUT_S = 120
"""Seconds of one mutant's tests; a change that makes them hang counts as noticed."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "format_spec")
SKIPPED_NODES = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""What only checks, or only people read: messages of exceptions, and (below) docstrings."""


@dataclass(frozen=True)
class Mutant:
    """One change of a file below the root."""

    path: Path
    number: int
    """Which of the file's changes."""
    line: int
    change: str
    """``before -> after``, as source."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


@dataclass(frozen=True)
class _Change:
    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    def apply(self) -> None:
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def list_mutants(path: Path) -> list[Mutant]:
    """Return every change of a file, in the order of its source."""
    changes = _changes(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return [
        Mutant(path, number, getattr(change.old, "lineno", 0), f"{_unparse(change.old)} -> {_unparse(change.new)}")
        for number, change in enumerate(changes)
    ]


def mutate(mutant: Mutant) -> str:
    """Return the file's source with the change made."""
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    next(change for number, change in enumerate(_changes(tree)) if number == mutant.number).apply()
    return ast.unparse(ast.fix_missing_locations(tree))


def _changes(node: ast.AST) -> Iterator[_Change]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            skipped = docstring or field in SKIPPED_FIELDS or isinstance(child, SKIPPED_NODES)
            if isinstance(child, ast.AST) and not skipped:
                yield from (_Change(node, field, index, child, new) for new in _replacements(child, field))
                yield from _changes(child)


def _replacements(node: ast.AST, field: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            yield _copy_with(node, ops=[COMPARISONS[type(op)]()])
        case ast.BoolOp():
            yield _copy_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield _copy_with(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp():
            yield deepcopy(node.operand)
        case ast.Constant(value=int() | float() | str()):
            yield ast.Constant(_other_value(node.value))
        case ast.Return() if node.value is not None:
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Name() | ast.Call() | ast.Attribute() if field in ("test", "ifs"):
            yield ast.UnaryOp(ast.Not(), node)


def _other_value(value: bool | int | float | str) -> bool | int | float | str:
    if isinstance(value, bool):
        return not value
    return f"{value}XX" if isinstance(value, str) else value + 1


def _copy_with(node: ast.AST, **fields: object) -> ast.AST:
    copied = deepcopy(node)
    for name, value in fields.items():
        setattr(copied, name, value)
    return ast.copy_location(copied, node)


def _unparse(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(deepcopy(node))).split())[:100]


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


def survives(trees: SimpleQueue[Path], tests: str, mutant: Mutant) -> bool:
    """Return whether the tests pass with the change made in one of the copies."""
    tree = trees.get()
    try:
        (tree / mutant.path).write_text(mutate(mutant), encoding="utf-8")
        return run_tests(tree, tests, "--testmon-nocollect")
    finally:
        shutil.copy(ROOT / mutant.path, tree / mutant.path)
        trees.put(tree)


def run_room(folder: str, sample: int, seed: int) -> str:
    """Change a sample of a room's code, print what no test noticed, and return the room's row of the table."""
    paths = [path.relative_to(ROOT) for path in MODULES.values() if path.is_relative_to(ROOT / folder)]
    mutants = [mutant for path in sorted(paths) for mutant in list_mutants(path)]
    chosen = Random(f"{seed}/{folder}").sample(mutants, min(sample, len(mutants)))
    tests = f"tests/{folder}"
    with copy_tree() as first, tempfile.TemporaryDirectory(prefix="mutants-") as second:
        if not run_tests(first, tests):
            return f"| {folder} | its tests fail without any change | | |"
        shutil.copytree(first, second, dirs_exist_ok=True)
        trees = SimpleQueue[Path]()
        trees.put(first)
        trees.put(Path(second))
        with ThreadPoolExecutor(2) as pool:
            survivors = [
                mutant
                for mutant, survived in zip(
                    chosen, pool.map(lambda mutant: survives(trees, tests, mutant), chosen), strict=True
                )
                if survived
            ]
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
