"""Small changes of a function: operators, conditions, constants, arguments, results and forgotten statements.

A change is a span of bytes of the module and its replacement. Texts are left alone: docstrings, annotations, f-strings,
messages of exceptions, assertions. What a program is without a change has no place here: a change that leaves the
syntax tree as it was, or breaks it, is not listed.
"""

from __future__ import annotations

import ast
from functools import cache
from itertools import pairwise
from typing import Iterator, NamedTuple

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"), ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""Operator of the syntax tree -> (its text, the text that replaces it)."""
KINDS = ("operator", "condition", "constant", "argument", "result", "statement")
OPPOSITE = {"min": "max", "max": "min", "any": "all", "all": "any"}
OPTIONAL = {"get", "getattr", "pop", "next", "round", "split", "rsplit", "sum", "range", "min", "max", "enumerate",
            "startswith", "replace", "find", "index", "dumps", "accumulate", "islice", "setdefault", "ljust", "rjust",
            "int"}  # fmt: skip
"""Calls that need not have their last unnamed argument. A call without an argument that it needs would fail at once,
and prove nothing about a test."""
TEXTS = (ast.Raise, ast.Assert, ast.JoinedStr)
NO_CODE = ("annotation", "returns", "decorator_list", "type_params")
"""Fields of a syntax tree that do not run in the function."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Change(NamedTuple):
    """Replacement of the bytes start .. stop-1 of a module by ``new``."""

    kind: str            # one of KINDS
    start: int
    stop: int
    new: str
    how: str             # description


class Source:
    """Text of a module, and the places of its nodes in bytes."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.lines = self.data.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the place of the first byte of a node."""
        return self._starts[node.lineno - 1] + node.col_offset

    def stop(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the place after the last byte of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def line(self, place: int) -> int:
        """Return the index of the line that contains a byte."""
        return self.data.count(b"\n", 0, place)

    def column(self, place: int) -> int:
        """Return the bytes between the first character of a line that is not blank and this place."""
        line = self.line(place)
        indent = len(self.lines[line]) - len(self.lines[line].lstrip())
        return place - self._starts[line] - indent

    def changed(self, change: Change) -> str:
        """Return the text of the module with the change."""
        return (self.data[: change.start] + change.new.encode() + self.data[change.stop :]).decode()


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, Function]]:
    """Yield (qualified name, function) of all functions that are in no other function."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield f"{name}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{name}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from functions(child, name)


def changes(function: Function, source: Source) -> Iterator[Change]:
    """Yield every change of a function, in the order of the text. The default of a parameter that it does not read, as
    in a method of a common interface, is left alone."""
    unread = {id(part) for default in _unread_defaults(function) for part in ast.walk(default)}
    for node in _code(function):
        if id(node) in unread:
            continue
        yield from _of_statement(node, source)
        yield from _of_expression(node, source)
        for condition in _conditions(node):
            span = source.start(condition), source.stop(condition)
            for new in ("False",) if isinstance(node, ast.While) else ("True", "False"):
                yield Change("condition", *span, new, f"condition {new}")


def _unread_defaults(function: Function) -> Iterator[ast.expr]:
    """Yield the defaults of the parameters that a function does not read."""
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    named = [*function.args.posonlyargs, *function.args.args]
    pairs = [*zip(reversed(named), reversed(function.args.defaults), strict=False),
             *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]  # fmt: skip
    for parameter, default in pairs:
        if default is not None and parameter.arg not in read:
            yield default


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all that runs in it, without texts and annotations."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in NO_CODE:
            continue
        for child in value if isinstance(value, list) else [value]:
            is_assertion = isinstance(child, ast.keyword) and child.arg == "strict"          # of zip
            if isinstance(child, ast.AST) and not isinstance(child, TEXTS) and not is_assertion:
                yield from _code(child)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions of a node that are not constants and name no value for later."""
    found: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        found.append(node.test)
    elif isinstance(node, ast.comprehension):
        found.extend(node.ifs)
    elif isinstance(node, ast.match_case) and node.guard is not None:
        found.append(node.guard)
    for condition in found:
        names = any(isinstance(part, ast.NamedExpr) for part in ast.walk(condition))
        if not isinstance(condition, ast.Constant) and not names:
            yield condition


def _of_statement(node: ast.AST, source: Source) -> Iterator[Change]:
    """Yield the changes of a statement as a whole."""
    if isinstance(node, ast.Return) and node.value is not None:
        start, stop = source.start(node.value), source.stop(node.value)
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield Change("result", start, stop, "None", "returns None")
        if isinstance(node.value, ast.Compare | ast.BoolOp):
            yield Change("result", start, stop, f"not ({source.data[start:stop].decode()})", "returns the opposite")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield Change("statement", source.start(node), source.stop(node), "pass", "call forgotten")
    elif isinstance(node, ast.Assign) and all(isinstance(one, ast.Attribute) for one in node.targets):
        yield Change("statement", source.start(node), source.stop(node), "pass", "assignment forgotten")
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        old, new = OPERATORS[type(node.op)]
        yield from _between(node.target, node.value, f"{old}=", f"{new}=", source)
    elif isinstance(node, ast.Break | ast.Continue):
        old, new = ("break", "continue") if isinstance(node, ast.Break) else ("continue", "break")
        yield Change("statement", source.start(node), source.stop(node), new, f"`{old}` -> `{new}`")


def _of_expression(node: ast.AST, source: Source) -> Iterator[Change]:
    """Yield the changes of an expression."""
    if isinstance(node, ast.Compare):
        for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            yield from _between(left, right, *OPERATORS[type(op)], source)
    elif isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            yield from _between(left, right, *OPERATORS[type(node.op)], source)
    elif isinstance(node, ast.BinOp) and _is_number(node):
        yield from _between(node.left, node.right, *OPERATORS[type(node.op)], source)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        old = "not" if isinstance(node.op, ast.Not) else "-"
        yield Change("operator", source.start(node), source.start(node) + len(old), "", f"`{old}` dropped")
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield from _of_constant(node, source)
    elif isinstance(node, ast.Slice):
        for bound in filter(None, (node.lower, node.upper)):
            yield Change("argument", source.start(bound), source.stop(bound), "", "bound dropped")
    elif isinstance(node, ast.Call):
        yield from _of_call(node, source)


def _of_constant(node: ast.Constant, source: Source) -> Iterator[Change]:
    """Yield the changes of a number by one, or of a truth value."""
    value = node.value
    if isinstance(value, bool):
        others: list[object] = [not value]
    else:
        assert isinstance(value, int | float)
        others = [value + 1, value - 1] if value else [value + 1]
    for new in others:
        yield Change("constant", source.start(node), source.stop(node), str(new), f"`{value}` -> `{new}`")


def _of_call(node: ast.Call, source: Source) -> Iterator[Change]:
    """Yield the changes of a call: its opposite, and one argument less."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Name) and node.func.id in OPPOSITE:
        new = OPPOSITE[node.func.id]
        yield Change("operator", source.start(node.func), source.stop(node.func), new, f"`{node.func.id}` -> `{new}`")
    places = sorted(((source.start(one), source.stop(one), one) for one in (*node.args, *node.keywords)),
                    key=lambda place: place[:2])  # fmt: skip
    for at, (start, stop, argument) in enumerate(places):
        is_named = isinstance(argument, ast.keyword) and argument.arg not in (None, "strict")
        is_optional = name in OPTIONAL and len(node.args) > 1 and argument is node.args[-1]
        if not is_named and not is_optional:
            continue
        begin = places[at - 1][1] if at else start
        end = stop if at else places[1][0] if len(places) > 1 else stop
        yield Change("argument", begin, end, "", f"argument `{source.data[start:stop].decode()[:30]}` dropped")


def _is_number(node: ast.BinOp) -> bool:
    """True if an operation has another one, and no operand is a text, for which + and % compose a message."""
    texts = [one for one in (node.left, node.right) if isinstance(one, ast.JoinedStr)
             or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))]  # fmt: skip
    return type(node.op) in OPERATORS and not texts


def _between(left: ast.expr, right: ast.expr, old: str, new: str, source: Source) -> Iterator[Change]:
    """Yield the replacement of the operator between two operands."""
    begin, end = source.stop(left), source.start(right)
    at = source.data.find(old.encode(), begin, end)
    if at >= 0 and b"#" not in source.data[begin:at]:
        yield Change("operator", at, at + len(old), new, f"`{old}` -> `{new}`")


def is_fault(source: Source, change: Change) -> bool:
    """True if the module with the change is a program, and another one. Only the function that is changed is read."""
    first, last = next(rows for rows in _function_rows(source.data)
                       if rows[0] <= source.line(change.start) <= rows[1])  # fmt: skip
    before = b"".join(source.lines[:first])
    function = b"".join(source.lines[first : last + 1])
    start, stop = change.start - len(before), change.stop - len(before)
    text = _block(function[:start] + change.new.encode() + function[stop:])
    try:
        tree = ast.parse(text)
        compile(tree, "changed", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return ast.dump(tree) != _dump(_block(function))


@cache
def _function_rows(data: bytes) -> list[tuple[int, int]]:
    """Return the indices of the first and the last line of every function that is in no other one."""
    return [(function.lineno - 1, (function.end_lineno or 0) - 1) for _, function in functions(ast.parse(data))]


def _block(function: bytes) -> bytes:
    """Return a function as a program, even if its lines are indented."""
    return b"if True:\n" + function if function[:1].isspace() else function


@cache
def _dump(data: bytes) -> str:
    return ast.dump(ast.parse(data))
