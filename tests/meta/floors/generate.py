"""Faults that nobody thought of, in the floors above the engines: one operator, constant or result, changed.

As for the engines (tests/meta/generate.py) every mutation has a number from its own text and the seed, and those with
the smallest numbers are planted: of each floor so many, no two in one file before every file has one.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

from tests.meta.floors.fault import FLOORS, Fault
from tests.meta.floors.no_faults import NO_FAULTS
from tests.meta.mutations import Change, Mutation, between

SEED = 1
EACH, OF_A_TOOL = 5, 10        # faults of each floor; of those of the tools that have few written by hand
TOOLS = ("tools/conformance/http_check", "tools/server_logs", "tools/request_bodies", "tools/advise", "tools/workload",
         "tools/picture", "tools/live", "tools/lessons", "cli")  # fmt: skip
TELLING = {"BadInput", "fault", "Misfit", "wanted", "quoted", "cut", "nearest", "Table", "add_column", "field", "Text",
           "append", "Failed", "join"}  # fmt: skip
"""Calls whose numbers and words are for the eye: where text is put together, and how it looks."""
TURNED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip


def generated(root: Path, each: int = EACH, seed: int = SEED) -> list[Fault]:
    """The faults, ``each`` of every floor, ``OF_A_TOOL`` of those of ``TOOLS``."""
    return [fault for floor in FLOORS
            for fault in _of_floor(root, floor, max(each, OF_A_TOOL if floor in TOOLS else 0), seed)]  # fmt: skip


def _of_floor(root: Path, floor: str, each: int, seed: int) -> list[Fault]:
    every = (root / "cachesim" / floor).rglob("*.py") if floor in TOOLS else (root / "cachesim" / floor).glob("*.py")
    files = sorted(every)
    ranked = sorted((one for path in files for one in mutations(path)), key=lambda one: one.number(seed))
    found: list[Fault] = []
    taken: dict[Path, int] = {}
    for round_ in range(each):
        for one in ranked:
            if len(found) == each:
                return found
            if taken.get(one.path, 0) > round_:
                continue
            fault = _fault(one, root)
            if fault.name not in NO_FAULTS and fault.name not in {other.name for other in found}:
                taken[one.path] = taken.get(one.path, 0) + 1
                found.append(fault)
    return found


def _fault(one: Mutation, root: Path) -> Fault:
    old, new = one.texts("".join(f"{line}\n" for line in one.lines))
    file = str(one.path.relative_to(root / "cachesim"))
    name = f"{file}, {one.where}: {one.how} at {one.column} of {one.text.strip()[:60]}"
    return Fault(name, file, old, new, one.how)


def mutations(path: Path) -> Iterator[Mutation]:
    """Every mutation of a file."""
    text = path.read_text()
    lines = text.splitlines()
    for function, node in _nodes(ast.parse(text), ""):
        for row, start, stop, new, how in _changes(node, lines):
            yield Mutation(path, row, start, stop, new, how, function, lines)


def _nodes(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """What is executed inside functions, texts and what is only said left out."""
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
    if isinstance(node, ast.keyword):
        return node.arg == "strict"              # of zip: an assertion
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in TELLING


def _changes(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """(line, start, stop, new text, what it is) of one node's mutations."""
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
