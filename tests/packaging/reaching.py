"""Modules of the package that start a process, open a socket, talk HTTP, or run code that is not their own.

They are found in the syntax trees: imports of modules that can, calls of ``os`` and ``asyncio`` that do, ``exec`` and
its like, imports of modules whose names are computed, and imports of the package's own names through which other
modules do it. Imports for type checkers do not count.
"""

from __future__ import annotations

import ast
import re
from typing import Iterator, Mapping

from tests.house.checks import nodes_of

PROCESS, NETWORK, CODE = "process", "network", "code"

MODULES = {
    **dict.fromkeys(("subprocess", "asyncio.subprocess", "posixsubprocess", "multiprocessing", "pty", "pexpect", "sh"),
                    PROCESS),
    **dict.fromkeys(("socket", "socketserver", "ssl", "http.client", "http.server", "urllib.request",
                     "urllib3", "ftplib", "smtplib", "poplib", "imaplib", "xmlrpc", "webbrowser", "requests", "httpx",
                     "aiohttp", "h11", "h2", "websockets", "uvicorn", "hypercorn", "starlette", "distributed", "dask",
                     "zmq", "grpc", "huggingface_hub", "openai"), NETWORK),
    **dict.fromkeys(("runpy", "code", "codeop", "zipimport", "pkgutil", "imp", "ctypes", "cffi", "pickle", "cPickle",
                     "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "importlib.machinery",
                     "jinja2", "tokenizers", "xllamacpp"), CODE),
}  # fmt: skip
"""Module -> what it can do, also for those below it."""
HARMLESS = ("multiprocessing.parent_process", "pickle.dumps")
CALLS = {
    "os": (re.compile(r"(fork|forkpty|system|popen|startfile|exec[lv]\w*|spawn[lv]\w*|posix_spawnp?)$"), PROCESS),
    "concurrent.futures": (re.compile(r"ProcessPoolExecutor$"), PROCESS),
    "builtins": (re.compile(r"(exec|eval|__import__)$"), CODE),
    "importlib.metadata": (re.compile(r"entry_points$"), CODE),
    "asyncio": (re.compile(r"(open_\w*connection|start_\w*server)$"), NETWORK),
}
"""Module -> its functions that do something, and what."""
METHODS = {
    **dict.fromkeys(("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
                    PROCESS),
    **dict.fromkeys(("create_connection", "create_server", "create_unix_connection", "create_unix_server",
                     "create_datagram_endpoint", "sock_connect"), NETWORK),
}  # fmt: skip
"""Names of asyncio and of its event loops -> what they do."""
IMPORTERS = ("import_module", "spec_from_file_location", "module_from_spec", "exec_module", "load_module")
OWN = {
    **dict.fromkeys(("BoundedChild", "run_guarded", "ProcessSubject", "Process"), PROCESS),
    **dict.fromkeys(("HttpClient", "BoundedSocket", "Http", "Cluster"), NETWORK),
    **dict.fromkeys(("run_rule_file", "profile_of", "load_entry_points"), CODE),
}  # fmt: skip
"""Names of the package that do it for other modules -> what they do."""

MAY_REACH = re.compile(
    rf"^\s*(?:import|from)\b.*\b_?(?:{'|'.join({name.partition('.')[0] for name in (*MODULES, *CALLS)})})\b"
    rf"|\b(?:{'|'.join((*METHODS, *IMPORTERS, *OWN))}|exec|eval|__import__)\b|(?<![.\w])compile\(", re.M
)
"""Matches every module that does something. To parse a module takes longer than to search its text."""


def reached(text: str) -> set[str]:
    """Return what the source of a module does, "process", "network" or "code"."""
    if not MAY_REACH.search(text):
        return set()
    nodes = nodes_of(ast.parse(text))
    skipped = {id(node) for guard in nodes if _is_for_types(guard) for node in ast.walk(guard)}
    nodes = [node for node in nodes if id(node) not in skipped]
    names = dict(pair for node in nodes for pair in _imported(node))
    found = {kind for node in nodes for name in _imported_names(node) for kind in _of_name(name)}
    return found | {kind for node in nodes for kind in _of_expression(node, names)}


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, with the full names of what they mean."""
    if isinstance(node, ast.Import):
        for one in node.names:
            root = one.name.partition(".")[0]
            yield (one.asname, one.name) if one.asname else (root, root)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for one in node.names:
            yield one.asname or one.name, f"{node.module}.{one.name}"


def _imported_names(node: ast.AST) -> Iterator[str]:
    """Yield the full names of what an import takes."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{one.name}" for one in node.names)


def _of_name(name: str) -> Iterator[str]:
    """Yield what a full name does; a leading underscore is that of a module in C."""
    name = name.lstrip("_")
    for module, kind in () if name in HARMLESS else MODULES.items():
        if name == module or name.startswith(f"{module}."):
            yield kind
    parent, _, last = name.rpartition(".")
    if parent.startswith("cachesim.") and last in OWN:
        yield OWN[last]
    if parent in CALLS and CALLS[parent][0].match(last):
        yield CALLS[parent][1]


def _full_name(node: ast.AST, names: Mapping[str, str]) -> str:
    """Return the full name of an expression such as ``os.path.join``, "" if it is another one."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        holder = _full_name(node.value, names)
        return f"{holder}.{node.attr}" if holder else ""
    return ""


def _of_expression(node: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    """Yield what an expression does."""
    if isinstance(node, ast.Attribute):
        if node.attr in METHODS:
            yield METHODS[node.attr]
        full = _full_name(node, names)
        if any(full.startswith(f"{name}.") for name in names.values()):
            yield from _of_name(full)
    elif isinstance(node, ast.Name) and node.id in ("exec", "eval", "__import__"):
        yield CODE
    elif isinstance(node, ast.Call):
        called = _full_name(node.func, names) or getattr(node.func, "attr", "")
        if called == "compile":
            yield CODE
        elif called.rpartition(".")[2] in IMPORTERS:
            yield from _of_importer(node)
        elif called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            yield from _of_name(f"{_full_name(node.args[0], names)}.{node.args[1].value}")


def _of_importer(call: ast.Call) -> Iterator[str]:
    """Yield what the import of a module by its name does: with a computed name, it runs code."""
    name = call.args[0] if call.args else None
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield from _of_name(name.value)
    else:
        yield CODE
