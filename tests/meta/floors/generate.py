"""Generated faults in the packages above the engines: a changed operator, constant or result.

As for the engines (tests/meta/generate.py), every mutation has a number derived from its own text and the seed, and
those with the smallest numbers are planted. No file gets a second fault before every file of the package has a fault.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Iterator

from tests.meta.floors.fault import FLOORS, Fault
from tests.meta.floors.no_faults import NO_FAULTS
from tests.meta.mutations import Change, Mutation, between

SEED = 1
EACH, OF_A_TOOL = 5, 10        # faults per package; per package with few faults written by hand
TOOLS = ("tools/conformance/http_check", "tools/server_logs", "tools/request_bodies", "tools/advise", "tools/workload",
         "tools/picture", "tools/live", "tools/lessons", "cli")  # fmt: skip
TELLING = {"BadInput", "fault", "Misfit", "wanted", "quoted", "cut", "nearest", "Table", "add_column", "field", "Text",
           "append", "Failed", "join"}  # fmt: skip
"""Calls that compose or format text; their arguments are not mutated."""
TURNED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip


def generated(root: Path, each: int = EACH, seed: int = SEED) -> list[Fault]:
    """Return the faults: ``each`` of every package, ``OF_A_TOOL`` of those in ``TOOLS``."""
    return [fault for floor in FLOORS if not floor.startswith("engines")
            for fault in _of_floor(root, floor, max(each, OF_A_TOOL if floor in TOOLS else 0), seed)]  # fmt: skip


def _of_floor(root: Path, floor: str, each: int, seed: int) -> list[Fault]:
    """Return ``each`` faults of a package."""
    every = (root / "cachesim" / floor).rglob("*.py") if floor in TOOLS else (root / "cachesim" / floor).glob("*.py")
    files = sorted(every)
    ranked = sorted((change for path in files for change in mutations(path)), key=lambda change: change.number(seed))
    found: list[Fault] = []
    taken: dict[Path, int] = {}
    for round_ in range(each):
        for mutation in ranked:
            if len(found) == each:
                return found
            if taken.get(mutation.path, 0) > round_:
                continue
            fault = _fault(mutation, root)
            if fault.name not in NO_FAULTS and fault.name not in {earlier.name for earlier in found}:
                taken[mutation.path] = taken.get(mutation.path, 0) + 1
                found.append(fault)
    return found


def _fault(mutation: Mutation, root: Path) -> Fault:
    """Return the fault that plants a mutation."""
    old, new = mutation.texts("".join(f"{line}\n" for line in mutation.lines))
    file = str(mutation.path.relative_to(root / "cachesim"))
    name = f"{file}, {mutation.where}: {mutation.how} at {mutation.column} of {mutation.text.strip()[:60]}"
    return Fault(name, file, old, new, mutation.how)


@cache
def mutations(path: Path) -> tuple[Mutation, ...]:
    """Return every mutation of a file."""
    text = path.read_text()
    lines = text.splitlines()
    return tuple(Mutation(path, row, start, stop, new, how, function, lines)
                 for function, node in _nodes(ast.parse(text), "")
                 for row, start, stop, new, how in _changes(node, lines))


def _nodes(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes executed inside functions, without texts and output."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            for statement in child.body:
                yield child.name, statement
                yield from _nodes(statement, child.name)
        elif isinstance(child, ast.ClassDef):
            yield from _nodes(child, where)
        elif where and not isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr) and not _claims_or_tells(child):
            yield where, child
            yield from _nodes(child, where)


def _claims_or_tells(node: ast.AST) -> bool:
    """True if a node is an assertion or produces output."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"              # of zip: an assertion
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in TELLING


def _changes(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """Yield the mutations of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
        yield from between(node.left, node.comparators[0], *TURNED[type(node.ops[0])], lines)
    elif isinstance(node, ast.BoolOp):
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from between(node.values[0], node.values[1], *words, lines)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        signs = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
        yield from between(node.left, node.right, *signs, lines)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        new = not node.value if type(node.value) is bool else int(node.value) + 1
        yield node.lineno - 1, node.col_offset, node.end_col_offset or 0, str(new), f"`{node.value}` -> `{new}`"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno - 1, node.col_offset, node.col_offset + 4, "", "`not` removed"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp | ast.Call):
        value, (at, end) = node.value, (node.value.col_offset, node.value.end_col_offset or 0)
        new = "None" if isinstance(value, ast.Call) else f"not ({lines[value.lineno - 1][at:end]})"
        if value.lineno == value.end_lineno:
            yield value.lineno - 1, at, end, new, "another result"
