"""Names of the package that a test may not use, and replacements that it may not make.

A test uses what a module offers to other modules. ``python -m tests.house.doors [FILE or FOLDER ...]`` lists the
findings; ``door_exceptions.toml`` has the accepted ones.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

from tests.house.checks import PACKAGE, ROOT, Module, modules, nodes_of

TESTS = ROOT / "tests"
EXCEPTIONS = Path(__file__).with_name("door_exceptions.toml")

PRIVATE = re.compile(r"_[a-zA-Z]\w*")
OF_NAMED_TUPLES = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
CALLED_BY_OTHERS = {"format_help", "makefile", "buffer_updated", "get_buffer", "eof_received", "pause_writing",
                    "resume_writing"}  # fmt: skip
"""Methods of ours that argparse, http.client and asyncio call."""
HALF_OBJECTS = {"SimpleNamespace", "Mock", "MagicMock", "create_autospec"}
REPLACES = re.compile(r"\b(?:setattr|patch)\(")
USES = re.compile(r"""(?:(?<!\bself)(?<!\bcls)\.\s*|[:"'])(\w+)""")
"""Matches names after a dot, except those of the object itself, and at the beginning of a text or after a colon."""
IMPORTS = re.compile(r"^\s*(?:from|import) cachesim\S*(?: import \([^)]*\)|.*)", re.M)
STORES = re.compile(r"\b(\w+)\.(\w+)(?=(?:, [\w.]+)* = )")
FOREIGN = ("tests/peers/", "tests/adapters/")
"""Programs that drive the classes of other packages, which read objects of theirs with more fields than are needed."""
DOTTED = re.compile(r"cachesim(?:[.:]\w+)+")
Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Finding(NamedTuple):
    """A use that a test may not make. ``what``: "private", "replaced", "half object" or "for tests alone"."""

    file: str
    line: int
    what: str
    name: str


class PackageNames(NamedTuple):
    """Names that the package defines: private ones, functions, and public ones that only tests use."""

    private: frozenset[str]
    functions: frozenset[str]
    for_tests: frozenset[str]


@cache
def package_names() -> PackageNames:
    """Return the names that the modules of the package define."""
    stored: set[str] = set()
    functions: set[str] = set()
    defined: set[str] = set()
    for module in modules():
        functions.update(node.name for node in module.of(*Function, ast.ClassDef))
        stored.update(node.attr for node in module.of(ast.Attribute) if isinstance(node.ctx, ast.Store))
        stored.update(node.id for node in module.of(ast.Name) if isinstance(node.ctx, ast.Store))
        defined |= _defined_in_public(module)
    texts = [module.text for module in modules()]
    texts += [path.read_text("utf-8") for path in (*ROOT.glob("*.md"), *PACKAGE.rglob("*.md"))]
    words = Counter[str]()
    for text in texts:
        words.update(re.findall(r"\w+", text))
    private = frozenset(name for name in stored | functions if PRIVATE.fullmatch(name) and name not in OF_NAMED_TUPLES)
    alone = frozenset(name for name in defined if words[name] == 1)
    return PackageNames(private, frozenset(functions), alone)


def _defined_in_public(module: Module) -> set[str]:
    """Return the public functions, classes and methods of a module that no decorator registers, except methods that a
    base class of another package calls."""
    found: set[str] = set()
    for node in module.of(*Function, ast.ClassDef):
        if node.name.startswith(("_", "pytest_")):
            continue
        if not any(isinstance(one, ast.Call) for one in node.decorator_list):
            found.add(node.name)
    return found - CALLED_BY_OTHERS


def _may_have_findings(text: str, names: PackageNames) -> bool:
    """True if a text may have findings. To parse a file takes longer than to search its text."""
    if REPLACES.search(text) or any(name in text for name in HALF_OBJECTS):
        return True
    imported = {word for statement in IMPORTS.findall(text) for word in re.findall(r"\w+", statement)}
    if any(owner in imported and name in names.functions for owner, name in STORES.findall(text)):
        return True
    return not imported.union(USES.findall(text)).isdisjoint(names.private | names.for_tests)


def findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of a test file."""
    yield from findings_in(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())


def findings_in(text: str, file: str) -> Iterator[Finding]:
    """Yield the findings of the text of a test file."""
    names = package_names()
    if not _may_have_findings(text, names):
        return
    nodes = nodes_of(ast.parse(text))
    origin = _origins(nodes)
    for node in nodes:
        for what, name in _of_node(node, names, origin):
            if what == "half object" and file.startswith(FOREIGN):
                continue
            yield Finding(file, node.lineno, what, name)


def _origins(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the module that each imported name comes from, with the name itself for an imported module."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.partition(".")[0]] = one.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                found[one.asname or one.name] = f"{node.module}.{one.name}"
    return found


def _of_node(node: ast.AST, names: PackageNames, origin: dict[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cachesim"):
        for one in node.names:
            if PRIVATE.fullmatch(one.name):
                yield "private", one.name
            elif one.name in names.for_tests:
                yield "for tests alone", one.name
    elif isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        foreign = owner in origin and not origin[owner].startswith("cachesim")
        if owner in ("self", "cls") or foreign:
            return
        if node.attr in names.private:
            yield "private", node.attr
        elif node.attr in names.for_tests:
            yield "for tests alone", node.attr
        elif isinstance(node.ctx, ast.Store) and node.attr in names.functions and _is_module(origin.get(owner, "")):
            yield "replaced", node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value in names.private:
            yield "private", node.value
        elif DOTTED.fullmatch(node.value):
            for word in re.split("[.:]", node.value):
                if word in names.private:
                    yield "private", word
    elif isinstance(node, ast.Name) and node.id in HALF_OBJECTS and isinstance(node.ctx, ast.Load):
        yield "half object", node.id
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("setattr", "patch"):
        name = _replaced(node, origin)
        if name and name not in names.private:
            yield "replaced", name


def _is_module(dotted: str) -> bool:
    """True if an imported name is one of a module of ours, and not of a class."""
    return dotted.startswith("cachesim") and dotted.rpartition(".")[2].islower()


def _replaced(call: ast.Call, origin: dict[str, str]) -> str:
    """Return the name that ``setattr(target, name, value)`` replaces, "" = a test may replace it: something of another
    package, a module of the standard library as one of our modules sees it, or a limit (a name in capitals)."""
    if not call.args:
        return ""
    target, *others = call.args
    if isinstance(target, ast.Constant) and isinstance(target.value, str):
        owner, _, name = target.value.rpartition(".")
    elif others and isinstance(others[0], ast.Constant):
        owner = _dotted(target, origin)
        name = str(others[0].value)
    else:
        return ""
    if owner and not owner.startswith(("cachesim", "?")):
        return ""
    if name in sys.stdlib_module_names or name.isupper() or name.startswith("__"):
        return ""
    if owner.rpartition(".")[2] in sys.stdlib_module_names:
        return ""
    return name


def _dotted(target: ast.expr, origin: dict[str, str]) -> str:
    """Return the dotted name of a target, from its import on; "?" = not imported."""
    parts: list[str] = []
    while isinstance(target, ast.Attribute):
        parts.insert(0, target.attr)
        target = target.value
    if isinstance(target, ast.Name) and target.id in origin:
        return ".".join((origin[target.id], *parts))
    return ".".join(("?", *parts))


def all_findings(paths: Iterable[Path] = (TESTS,)) -> list[Finding]:
    """Return the findings of files and folders."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [found for file in files for found in findings(file)]


def exceptions() -> dict[tuple[str, str], str]:
    """Return the reasons of the accepted findings, by file and name."""
    rows = tomllib.loads(EXCEPTIONS.read_text("utf-8")).get("exception", [])
    return {(row["file"], row["name"]): row["reason"] for row in rows}


def main(argv: list[str] | None = None) -> int:
    """Print the findings that are not accepted, and return 1 if there are any."""
    paths = [Path(name).resolve() for name in (sys.argv[1:] if argv is None else argv)] or [TESTS]
    accepted = exceptions() if EXCEPTIONS.exists() else {}
    found = [one for one in all_findings(paths) if (one.file, one.name) not in accepted]
    for one in found:
        print(f"{one.file}:{one.line}: {one.what}: {one.name}")
    print(f"{len(found)} findings, {len({one.name for one in found if one.what == 'private'})} private names, "
          f"{len({one.file for one in found})} files", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
