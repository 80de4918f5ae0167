"""The changes of a mutation run: one small slip in a syntax tree at a time, in a fixed order.

No change touches what only people read (docstrings, annotations, messages of exceptions and logs), what only checks
(``assert``, ``zip(strict=...)``, decorators, imports for types, type variables), or how wide or pale a figure's mark is
(``MARK_LOOKS``).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "format_spec", "type_params"}
MARK_LOOKS = {
    "alpha",
    "columnspacing",
    "handlelength",
    "linewidth",
    "markeredgewidth",
    "markersize",
    "pad",
    "solid_capstyle",
    "zorder",
}
"""Arguments and settings of matplotlib whose constants are a matter of taste; a computed value says something and may change."""
TYPE_VARIABLES = ("TypeVar", "ParamSpec")
SKIPPED_NODES = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
CHANGED_TEXT = "XX"


@dataclass(frozen=True)
class Mutant:
    """One change; ``number`` is its place among all changes of the module."""

    number: int
    line: int
    function: str
    """Qualified name of what is changed, for example ``Plan.key``; empty for the module's own statements."""
    change: str
    """``before -> after``, as source."""


@dataclass(frozen=True)
class _Site:
    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    function: str

    def put(self, node: ast.AST) -> None:
        """Replace the node in its parent."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants_of(source: str) -> list[Mutant]:
    """Every change of a module's source, in the order of the source."""
    tree = ast.parse(source)
    mutants = []
    for number, (site, new) in enumerate(_changes(tree)):
        line = getattr(site.node, "lineno", getattr(site.parent, "lineno", 0))
        mutants.append(Mutant(number, line, site.function, f"{_unparse(site.node)} -> {_unparse(new)}"))
    return mutants


def mutate(source: str, number: int) -> ast.Module:
    """The module's tree with change ``number`` made."""
    tree = ast.parse(source)
    site, new = next(change for index, change in enumerate(_changes(tree)) if index == number)
    site.put(new)
    return ast.fix_missing_locations(tree)


def compile_mutant(source: str, number: int, path: Path) -> CodeType:
    """Return the code of the module at ``path`` with change ``number`` made, free of this module's own future imports."""
    return compile(mutate(source, number), str(path), "exec", dont_inherit=True)


def _changes(tree: ast.Module) -> Iterator[tuple[_Site, ast.AST]]:
    for site in list(_sites(tree, "")):
        for new in _variants(site.node):
            yield site, ast.copy_location(new, site.node)
        if _is_condition(site):
            yield site, ast.copy_location(ast.UnaryOp(ast.Not(), site.node), site.node)  # type: ignore[arg-type]


def _sites(node: ast.AST, function: str) -> Iterator[_Site]:
    """Every node that may change, with its place."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_ignored(child) or _is_look(node, field, index):
                continue
            named = isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            inside = f"{function}.{child.name}".lstrip(".") if named else function  # type: ignore[attr-defined]
            yield _Site(node, field, index, child, inside)
            yield from _sites(child, inside)


def _is_ignored(node: ast.AST) -> bool:
    """Statements and arguments that no reply, file or event can depend on."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_logging(node.value)
    if isinstance(node, ast.Assign):
        listed = any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
        return listed or _calls(node.value, TYPE_VARIABLES)
    if isinstance(node, ast.keyword):
        return node.arg == "strict" or (node.arg in MARK_LOOKS and isinstance(node.value, ast.Constant))
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, SKIPPED_NODES)


def _is_look(node: ast.AST, field: str, index: int | None) -> bool:
    """Whether an entry of a dictionary is such a constant, as in ``{"axes.linewidth": 0.6}``."""
    if not isinstance(node, ast.Dict) or field != "values" or index is None:
        return False
    key = node.keys[index]
    named = isinstance(key, ast.Constant) and str(key.value).rpartition(".")[2] in MARK_LOOKS
    return named and isinstance(node.values[index], ast.Constant)


def _calls(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_logging(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "log"


def _is_condition(site: _Site) -> bool:
    """Whether the node is a condition whose negation is no other change."""
    holds = site.field == "test" and isinstance(site.parent, ast.If | ast.While | ast.IfExp)
    filters = site.field == "ifs" and isinstance(site.parent, ast.comprehension)
    if isinstance(site.node, ast.Compare) and len(site.node.ops) == 1:
        return False
    return (holds or filters) and not (isinstance(site.node, ast.UnaryOp) and isinstance(site.node.op, ast.Not))


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    """What an expression may be mistaken for, or a statement."""
    match node:
        case ast.Compare():
            for index, op in enumerate(node.ops):
                for replacement in COMPARISONS[type(op)]:
                    yield _copy_with(node, ops=[*node.ops[:index], replacement(), *node.ops[index + 1 :]])
        case ast.BoolOp():
            yield _copy_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield _copy_with(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp():
            yield deepcopy(node.operand)
        case ast.Constant():
            yield from map(ast.Constant, _constants(node.value))
        case ast.stmt():
            yield from _statements(node)


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Return() if node.value is not None and not _is_none(node.value):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()


def _constants(value: object) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        yield value + CHANGED_TEXT


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _copy_with(node: ast.AST, **fields: object) -> ast.AST:
    copied = deepcopy(node)
    for name, value in fields.items():
        setattr(copied, name, value)
    return copied


def _unparse(node: ast.AST) -> str:
    """A node as one line of source."""
    text = " ".join(ast.unparse(ast.fix_missing_locations(deepcopy(node))).split())
    return text if len(text) <= 100 else f"{text[:97]}..."
