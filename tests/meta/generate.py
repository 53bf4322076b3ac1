"""Generated faults: single mutations of operators and constants of the engines.

Every possible mutation has a number, derived from its own text and the seed. Those with the smallest numbers in each
engine's memory, rules and drivers are planted. The selection is therefore the same on every machine, and a change to a
line of an engine changes at most the fault in that line.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Iterator

from tests.meta.fault import Fault
from tests.meta.mutations import Change, Mutation, between

SEED = 1
EACH = 4               # faults per part of each engine
ENGINES = ("llama_cpp", "ik_llama", "mlx_lm")
BESIDE = {"__init__.py", "snapshot.py", "server_flags.py", "restore_points.py", "rule_table.py", "element_codec.py",
          "rule_tracing.py", "events.py", "checkpoint_facts.py", "entry.py", "server_state.py",
          "model_layout.py", "quantized_kv_cache.py", "chunked_kv_cache.py", "masks.py"}  # fmt: skip
"""Files without decisions or with tables only, and files with classes that no simulated server uses."""

MEMORY, RULES = ("memory", "caches", "lru"), ("rules",)
ORDERS = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
TELLING = {"emit", "tell", "_tell", "_told", "_on_event", "record", "changed", "tell_change", "Crash", "Aborted",
           "share", "mib", "_because"}
"""Calls that only produce log output. For a Decision, only the value is mutated."""


def generated(root: Path, each: int = EACH, seed: int = SEED) -> list[Fault]:
    """Return the faults: ``each`` of memory, rules and drivers of every engine, at most a single fault per function."""
    found = []
    for engine in ENGINES:
        folder = root / "cachesim/engines" / engine
        shared = [path.read_text() for path in sorted((folder.parent / "shared").rglob("*.py"))]
        everything = "\0".join([*(path.read_text() for path in sorted(folder.rglob("*.py"))), *shared])
        for part in ("memory", "rules", "drivers"):
            files = [path for path in sorted(folder.rglob("*.py"))
                     if path.name not in BESIDE and part_of(path, folder) == part]
            ranked = sorted((change for path in files for change in mutations(path)),
                            key=lambda change: change.number(seed))
            seen: set[tuple[Path, str]] = set()
            for mutation in ranked:
                if len(seen) == each:
                    break
                if (mutation.path, mutation.where) not in seen:
                    seen.add((mutation.path, mutation.where))
                    found.append(_fault(mutation, engine, everything, root))
    return found


def part_of(path: Path, folder: Path) -> str:
    """Return the part of its engine that a file belongs to; "" for versions, which are tables."""
    top = path.relative_to(folder).parts[0]
    return "memory" if top in MEMORY else "rules" if top in RULES else "" if top == "profiles" else "drivers"


def _fault(mutation: Mutation, engine: str, everything: str, root: Path) -> Fault:
    """Return the fault that plants a mutation."""
    old, new = mutation.texts(everything)
    name = f"{mutation.path.stem}.{mutation.where}: {mutation.how} in {mutation.text.strip()[:70]}"
    module = ".".join(mutation.path.relative_to(root).with_suffix("").parts)
    return Fault(name, old, new, engine=engine, how=mutation.how, rule=(module, mutation.where))


@cache
def mutations(path: Path) -> tuple[Mutation, ...]:
    """Return every mutation of a file."""
    text = path.read_text()
    lines = text.splitlines()
    return tuple(Mutation(path, row, start, stop, new, how, function, lines)
                 for function, node in _nodes(ast.parse(text), "")
                 for row, start, stop, new, how in _of(node, lines))


def _nodes(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes executed inside functions, without texts and log output."""
    for child in _parts(node):
        if isinstance(child, ast.FunctionDef) and child.name not in ("check", "meta", "set_meta"):
            for statement in child.body:
                yield child.name, statement
                yield from _nodes(statement, child.name)
        elif isinstance(child, ast.ClassDef):
            yield from _nodes(child, where)
        elif where and not isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.FunctionDef):
            yield where, child
            yield from _nodes(child, where)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the child nodes to mutate."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "Decision":
            yield from node.args[1:2]
            return
        if name in TELLING:
            return
    if isinstance(node, ast.Dict):                      # numbers for the log, or texts of an answer
        return
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp):
        yield node.value                                # x[0]: the next index usually does not exist
        return
    yield from ast.iter_child_nodes(node)


def _of(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """Yield the mutations of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in ORDERS:
        old, new = ORDERS[type(node.ops[0])]
        yield from between(node.left, node.comparators[0], old, new, lines)
    elif isinstance(node, ast.BoolOp) and not isinstance(node.values[1], ast.List | ast.Dict):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from between(node.values[0], node.values[1], old, new, lines)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        old, new = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
        yield from between(node.left, node.right, old, new, lines)
        if isinstance(node.right, ast.Constant) and node.left.end_lineno == node.right.end_lineno:
            row, right = node.right.lineno - 1, node.right
            start, stop = node.left.end_col_offset or 0, right.end_col_offset or 0
            text = lines[row][start:stop].strip()
            if "(" not in text and ")" not in text:
                yield row, start, stop, "", f"`{text}` removed"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        row = node.lineno - 1
        for new in (node.value + 1, *((node.value - 1,) if node.value else ())):
            yield row, node.col_offset, node.end_col_offset or 0, str(new), f"`{node.value}` -> `{new}`"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        if len(node.args) > 1:
            new = "max" if node.func.id == "min" else "min"
            at = node.func
            yield at.lineno - 1, at.col_offset, at.end_col_offset or 0, new, f"`{at.id}` -> `{new}`"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = node.col_offset
        yield node.lineno - 1, start, start + 4, "", "`not` removed"
