"""Digests of rules and recordings, to detect changes since a grade was determined."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import textwrap
import tomllib
from functools import cache
from pathlib import Path

LENGTH = 12


def digest(data):
    """Return a short hexadecimal digest of bytes."""
    return hashlib.sha256(data).hexdigest()[:LENGTH]


@cache
def of_file(path):
    """Return the digest of a recording."""
    return digest(Path(path).read_bytes())


def of_case(path):
    """Return the SHA-256 digest of what a scenario file sends to a server: engine, model, options, words and requests.

    Titles, reasons, sources, expectations and the names of rule sets do not count.
    """
    top = tomllib.loads(Path(path).read_text("utf-8"))
    case = {key: top.get(key) for key in ("engine", "model", "server", "words")}
    case["request"] = [{key: value for key, value in step.items() if key != "why"} for step in top["request"]]
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()


def of_rule(rule):
    """Return the digest of a rule's code and of the parts of its module that it uses, without docstrings and
    decorators."""
    function = inspect.unwrap(rule)
    return digest(code_of(inspect.getsource(inspect.getmodule(function)), function.__name__).encode())


@cache
def _definitions(text):
    """Return the definitions of a module by name."""
    return {defined: node for node in ast.parse(text).body for defined in _defines(node)}


@cache
def code_of(text, name):
    """Return the source of a function and of the names of its module that it needs, each once."""
    known = _definitions(text)
    lines, todo, done = text.splitlines(), [name], []
    while todo:
        one = todo.pop()
        if one in known and one not in done:
            done.append(one)
            todo += sorted({node.id for node in ast.walk(known[one]) if isinstance(node, ast.Name)}, reverse=True)
    return "\n".join(_source(known[one], lines) for one in done)


def _defines(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _source(node, lines):
    """Return the lines of a definition, from its name on."""
    inside = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    said = {n for one in inside if ast.get_docstring(one) for n in _lines(one.body[0])}
    left = [lines[n - 1] for n in _lines(node) if n not in said]
    return textwrap.dedent("\n".join(line.split("  # ")[0].rstrip() for line in left if line.strip()))


def _lines(node):
    return range(node.lineno, node.end_lineno + 1)
