"""Checks of the architecture for a source file. Pure functions from a parsed file to a list of findings.

A module is named by its path below ``cachesim/`` without ``.py``, in parts: ("engines", "base").
"""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import AbstractSet, Any, Iterator, Mapping, NamedTuple, Sequence, TypeVar

from cachesim.engines.registry import BUILTIN

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cachesim"

LEVEL = {
    "base": 0, "__init__": 0,
    "events": 1, "model": 1,
    "oracle": 2,
    "engines": 3,
    "scenarios": 4,
    "judging": 5, "replay": 5,
    "tools": 6,
    "api": 7, "cli": 7, "pytest_plugin": 7, "records": 7, "strategies": 7, "pages": 7,
    "__main__": 7,
}
"""Rooms of the package: each imports from lower levels only. ``tools`` and what is above it are no part of the core."""

NOT_IN_THE_WHEEL = {"cachesim.pages.site": "is made from the documents of the whole repository, which a wheel lacks"}

# Imports that only open a door: the entrance that of the command line, the package itself those of the kit and of api.
# The Python interface and the plugin for pytest return the results of `records`.
SIDEWAYS = {
    ("__main__", "cli"), ("__init__", "tools"), ("__init__", "api"), ("__init__", "records"), ("__init__", "base"),
    ("api", "records"), ("pytest_plugin", "api"), ("pytest_plugin", "records"),
}  # fmt: skip

FOR_ALL_TOOLS = ("run", "picture")
TOOL_ARROWS = {
    ("run", "picture"): "`run`, `why` and `diff` draw what they have judged",
    ("rulebook", "server_logs"): "`explain` says what a line of a log means",
    ("advise", "workload"): "`advise --for agents` runs recorded sessions",
    ("memory", "workload"): "`memory --workload` runs recorded sessions on the estimated server",
    ("request_bodies", "advise"): "what an import found is followed by the advice that would have helped",
    ("server_logs", "advise"): "what an import found is followed by the advice that would have helped",
    ("watch", "server_logs"): "`watch` reads the log of a server while it grows",
    ("watch", "request_bodies"): "`watch` compares the bodies of a client while it sends them",
    ("server_logs", "request_bodies"): "`import` reads a log or request bodies, whichever the file holds",
    ("live", "search"): "`fuzz --real` runs drawn conversations on real servers",
    ("search", "workload"): "`merge` puts campaigns and workloads of several machines together",
}
"""Tools that import another one, with the reason; all may import ``FOR_ALL_TOOLS``, except these two."""

SHARED_BY_ENGINES = ("base", "chat_bodies", "chat_template", "contract", "capabilities", "rule", "shared", "inspection",
                     "point_kinds", "server_parts")
REGISTRY = ("registry", "newest", "shipped", "build_names", "rule_files")   # know every engine, no engine knows them
ENGINE_FOLDERS = tuple(BUILTIN)
ENGINE_NAME = re.compile("|".join(name.replace("_", "[._-]") for name in ENGINE_FOLDERS), re.I)
"""Names of the engines of the registry, however their words are joined."""
RULE_ID = re.compile(r"\b(LC|IK|ML|VL|SG)-[A-Z]{2,}")

USERS_OF_SHARED = 2
# Modules of engines/shared with fewer engines as users, with the reason.
FEWER_USERS: dict[str, str] = {}

CHAIN = 2
# Engines whose server inherits from more classes of its engine or of engines/shared: their number, with the reason.
LONGER_CHAINS: dict[str, tuple[int, str]] = {}

# Calls by which a part gets the server or a method of it, with the reason.
GIVEN_THE_SERVER: dict[str, str] = {}

# Folders above the engines that may import an engine, with the reason.
MAY_KNOW_AN_ENGINE: dict[tuple[str, ...], str] = {
    ("tools", "live", "llama_server"): "starts a real llama-server and reads its log",
}
MAY_PRINT = ("cli", "base.console")
MAY_NAME_PROFILES = ("scenarios", "cli")
OUTSIDE_WORLD = {"time", "random", "datetime", "secrets", "uuid"}

# Files below the entrances that may read the clock, the environment or global random state, with the reason.
MAY_LOOK_OUTSIDE: dict[str, str] = {
    "base.bounded_socket": "ends a connection at the time that its caller gives",
    "base.ending": "tells a second signal from the same one that was sent twice",
    "base.pool": "lets a new interpreter import nothing from the current folder",
    "base.http_client": "ends a reply after the seconds that its caller gives",
    "tools.live.llama_server.real.installation": "reads where the user keeps caches",
    "tools.live.llama_server.process": "waits for a real server, for a bounded time",
    "tools.live.llama_server.guarded_run": "gives a program a part of the environment, for a bounded time",
    "tools.conformance.timeouts": "ends somebody else's test after the time that its caller gives",
    "tools.search.fuzz_command": "ends a campaign after the minutes that the user gives",
    "tools.search.campaign_jobs": "ends a campaign after the minutes that the user gives",
    "tools.playground.bounded_connection": "closes a connection that has waited for too long",
    "tools.watch.event_endpoint": "ends a replay of kept messages after 20 seconds",
    "tools.watch.shared_deadline": "ends the comparisons some seconds after the relay",
    "tools.run.bisect_jobs": "starts more processes for work that takes long",
    "tools.advise.command": "ends a search after the seconds that the user gives",
}

_OF_THE_PACKAGE = "reads files of the package"
# Modules above base that read files or ask for their kind without base.untrusted_files, with the reason.
MAY_READ_FILES: dict[str, str] = {
    "cli.main": "opens the null device, to write",
    "engines.shared.array_file": "loads arrays from bytes in memory, without pickle",
    "engines.plugins": "reads the metadata of installed packages at every start; ignores errors",
    "judging.evidence": _OF_THE_PACKAGE,
    "scenarios.corpus": _OF_THE_PACKAGE,
    "scenarios.real_builds": _OF_THE_PACKAGE,
    "scenarios.scenario_heads": _OF_THE_PACKAGE,
    "scenarios.scenario_search": _OF_THE_PACKAGE,
    "tools.lessons.lesson_files": _OF_THE_PACKAGE,
    "tools.lessons.terminal_lesson": _OF_THE_PACKAGE,
    "tools.picture.page_assets": _OF_THE_PACKAGE,
    "tools.rulebook.glossary": _OF_THE_PACKAGE,
    "tools.workload.shipped_sessions": _OF_THE_PACKAGE,
    "tools.live.llama_server.real.wheels": _OF_THE_PACKAGE,
    "tools.live.llama_server.gguf_projectors": "reads a file that it has just written",
    "tools.live.llama_server.process": "reads the log that a server started by this process writes",
    "tools.watch.log_follower": "reads a growing log in pieces of bounded size; refuses what is not a regular file",
    "tools.watch.relay_process": "opens pipes of this process",
    "tools.live.llama_server.export.scenario_file": "code of an exported program",
    "tools.live.llama_server.export.case_program": "code of an exported program",
    "pages.site.repository": "reads the documents from which the site is made",
    "pages.site.built_site": "reads the site that it has just written",
    "tools.watch.saved_bodies": "appends to the file that --save names",
}

# Code of exported programs: it prints, waits and reads settings there, and is never run here.
EXPORTED = ("tools.live.llama_server.export.talk", "tools.live.llama_server.export.case_program")


N = TypeVar("N", bound=ast.AST)


class Module(NamedTuple):
    """A source file: its name in parts, its text, its tree."""

    parts: tuple[str, ...]
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    @property
    def level(self) -> int:
        return LEVEL[self.parts[0]]

    def of(self, *kinds: type[N]) -> list[N]:
        """Return the nodes of these classes."""
        found = _nodes_by_class(self.tree)
        return [node for kind in kinds for node in found.get(kind, ())]


def nodes_of(tree: ast.AST) -> list[Any]:
    """Return the nodes of a tree, like ``ast.walk``, without the contexts of names, which are a third of them."""
    found = [tree]
    for node in found:
        for value in vars(node).values():
            kind = type(value)
            if kind is int or kind is str:
                continue
            if kind is list:
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return found


@cache
def _nodes_by_class(tree: ast.Module) -> dict[type[ast.AST], list[Any]]:
    found: dict[type[ast.AST], list[Any]] = {}
    for node in nodes_of(tree):
        found.setdefault(type(node), []).append(node)
    return found


Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(text: str, name: str) -> Module:
    """A module from a text, for the files and for the snippets of the counter-tests."""
    return Module(tuple(name.split(".")), text, ast.parse(text))


@cache
def modules() -> list[Module]:
    """All modules of the package."""
    return [module_of(path) for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def module_of(path: Path) -> Module:
    """Return the module of a file of the package."""
    return parse(path.read_text("utf-8"), _name(path))


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def functions(module: Module) -> Iterator[Function]:
    """Return all functions, with nested functions and methods."""
    yield from module.of(ast.FunctionDef, ast.AsyncFunctionDef)


def imported(module: Module) -> Iterator[tuple[str, ...]]:
    """The modules of ours that are imported, wherever in the file, without the leading ``cachesim``."""
    for node in module.of(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.level:
            names = ["cachesim.<relative>"]
        else:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "cachesim":
                yield tuple(rest)


def bad_imports(module: Module) -> list[str]:
    """Return imports of higher or equal levels, relative imports, and imports between engines."""
    return [f"{module.name} imports {'.'.join(to)}" for to in imported(module) if not _may_import(module, to)]


def _may_import(module: Module, to: tuple[str, ...]) -> bool:
    room = module.parts[0]
    if not to or to[0].startswith("__"):
        return True                               # the version, a name of the package itself
    if to[0] not in LEVEL:
        return False
    if to[0] != room:
        return LEVEL[to[0]] < module.level or (room, to[0]) in SIDEWAYS
    mine = module.parts[1] if len(module.parts) > 1 else ""
    if len(to) < 2 or to[1] == mine:
        return True
    if room == "tools":
        return (mine not in FOR_ALL_TOOLS and to[1] in FOR_ALL_TOOLS) or (mine, to[1]) in TOOL_ARROWS
    if room != "engines":
        return True
    return mine in REGISTRY or to[1] == mine or to[1] in SHARED_BY_ENGINES


def names_engines(module: Module) -> list[str]:
    """Return names of engines, ids of rules and imports of an engine in code above the engines."""
    if module.level <= LEVEL["engines"] or module.parts[:3] in MAY_KNOW_AN_ENGINE:
        return []
    found = [f"{module.name} imports {'.'.join(to)}" for to in imported(module) if _of_an_engine(to)]
    docs = docstrings(module)
    words = [(node.lineno, node.value) for node in module.of(ast.Constant) if id(node) not in docs]
    words += [(node.lineno, node.id) for node in module.of(ast.Name)]
    words += [(node.lineno, node.attr) for node in module.of(ast.Attribute)]
    for line, word in words:
        if isinstance(word, str):
            found += [f"{module.name}:{line} names an engine"] * bool(ENGINE_NAME.search(word))
            found += [f"{module.name}:{line} names a rule"] * bool(RULE_ID.search(word))
    return found


ASK_NO_KIND = (("judging",), ("tools", "search"))
"""Rooms that ask for the role of a restore point, and not for the name of its kind."""
ONLY_SOME_HAVE = re.compile(r"slot|checkpoint")


def assumes_slots(module: Module) -> list[str]:
    """Return imports of events that only servers with slots log, in the core above the engines, and comparisons with
    the name of a kind of restore points that only they have."""
    core = LEVEL["engines"] < module.level < LEVEL["tools"]
    found = [f"{module.name} imports {'.'.join(to)}" for to in imported(module) if core and "slot_events" in to]
    if not any(module.parts[: len(room)] == room for room in ASK_NO_KIND):
        return found
    return found + [f"{module.name}:{node.lineno} asks for a kind by name" for node in module.of(ast.Compare)
                    for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    and ONLY_SOME_HAVE.fullmatch(part.value)]  # fmt: skip


REQUESTS_SAY = frozenset({"cache_prompt"})
"""An option that is called like a field of requests, whose default it is."""
STEPS_ARE = frozenset({"parallel"})
"""An option that is called like an operation of recordings, and a section of the check: requests sent together."""
BODIES_SAY = frozenset({"thinking", "template"})
"""Options of our mlx-lm that are called like fields of request bodies and of a tokenizer's configuration."""
TRACES_SAY = frozenset({"block_size"})
"""An option that is called like a field of recorded sessions of block ids."""
MODELS_SAY = frozenset({"block_size", "max_model_len"})
"""Options that are called like fields of an OpenAI server's list of models."""
SIZES_SAY = frozenset({"page_size"})
"""An option that is called like a size that servers state."""
EVENTS_SAY = frozenset({"block_size"})
"""Fields of published events that are also options."""


def names_options(module: Module, options: AbstractSet[str]) -> list[str]:
    """Above the engines: names of server options in code. An engine's manual answers what they mean."""
    if module.level <= LEVEL["engines"] or module.parts[:3] in MAY_KNOW_AN_ENGINE:
        return []
    told = REQUESTS_SAY | (STEPS_ARE if {"replay", "live", "conformance"} & {*module.parts} else frozenset())
    told |= BODIES_SAY if "request_bodies" in module.parts else frozenset()
    told |= TRACES_SAY if "workload" in module.parts else frozenset()
    told |= EVENTS_SAY if "kv_events" in module.parts else frozenset()
    told |= MODELS_SAY if "http_check" in module.parts else frozenset()
    told |= SIZES_SAY if "http_check" in module.parts else frozenset()
    docs = docstrings(module)
    left = options - told
    return [f"{module.name}:{node.lineno} names the option {node.value}" for node in module.of(ast.Constant)
            if isinstance(node.value, str) and node.value in left and id(node) not in docs]  # fmt: skip


def _of_an_engine(to: tuple[str, ...]) -> bool:
    return to[0] == "engines" and len(to) > 1 and to[1] in ENGINE_FOLDERS


def circles(package: Sequence[Module]) -> list[list[str]]:
    """Modules that need each other, directly or through others, wherever in a file they say so; each circle sorted."""
    known = {module.parts for module in package}
    needs = {module.parts: {_target(to, known) for to in imported(module)} - {(), module.parts} for module in package}
    reach = {parts: _reached(parts, needs) for parts in needs}
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in needs if a in reach[a]}
    return sorted(sorted(".".join(parts) for parts in circle) for circle in found)


def shared_class_names(package: Sequence[Module]) -> dict[str, list[str]]:
    """Return public class names that occur in several modules, without the engines' folders: engines share concepts."""
    found: dict[str, list[str]] = {}
    for module in package:
        if module.parts[0] == "engines" and len(module.parts) > 2 and module.parts[1] in ENGINE_FOLDERS:
            continue
        for node in module.of(ast.ClassDef):
            if not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module.name)
    return {name: places for name, places in found.items() if len(places) > 1}


def _target(to: tuple[str, ...], known: AbstractSet[tuple[str, ...]]) -> tuple[str, ...]:
    """The module that an import names: the longest known prefix."""
    return next((to[:n] for n in range(len(to), 0, -1) if to[:n] in known and to[:n] != ("__init__",)), ())


def _reached(start: tuple[str, ...], needs: Mapping[tuple[str, ...], AbstractSet[tuple[str, ...]]]) -> set[Any]:
    todo, seen = list(needs[start]), set()
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += needs[one]
    return seen


def users_of_shared(package: Sequence[Module]) -> dict[str, set[str]]:
    """Return the engines that use each module of engines/shared, directly or through modules that engines share."""
    known = {module.parts for module in package}
    needs = {module.parts: {_target(to, known) for to in imported(module)} - {(), module.parts} for module in package}
    common = {parts: {to for to in found if not _in_an_engine(to)} for parts, found in needs.items()}
    users: dict[str, set[str]] = {".".join(parts): set() for parts in known if parts[:2] == ("engines", "shared")}
    for module in package:
        if _in_an_engine(module.parts):
            for parts in common[module.parts] | {to for one in common[module.parts] for to in _reached(one, common)}:
                users.get(".".join(parts), set()).add(module.parts[1])
    users.pop("engines.shared", None)
    return users


def _in_an_engine(parts: tuple[str, ...]) -> bool:
    return parts[0] == "engines" and len(parts) > 1 and parts[1] in ENGINE_FOLDERS


def chain(server: type, engine: str) -> list[type]:
    """Return the classes of its engine or of engines/shared from which a server class inherits."""
    folders = f"cachesim.engines.{engine}.", "cachesim.engines.shared."
    return [base for base in server.__mro__[1:] if base.__module__.startswith(folders)]


def given_the_server(text: str, methods: AbstractSet[str]) -> list[str]:
    """Return the calls in a server class that give the server, or one of its ``methods``, to a part: to a class that is
    instantiated, or to a method of a part."""
    found = []
    for call in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(call, ast.Call) and _is_of_a_part(call.func):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            found += [ast.unparse(call.func) for value in given if _is_the_server(value, methods)]
    return found


def _is_of_a_part(func: ast.expr) -> bool:
    """True if a call makes an object of a class, or calls a method of an attribute of the server."""
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    if name.lstrip("_")[:1].isupper():
        return True
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute) and _is_self(func.value.value)


def _is_the_server(value: ast.expr, methods: AbstractSet[str]) -> bool:
    return _is_self(value) or (isinstance(value, ast.Attribute) and _is_self(value.value) and value.attr in methods)


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


def prints(module: Module) -> list[str]:
    """Calls of ``print`` outside the places that may."""
    if module.parts[0] in MAY_PRINT or module.name in (*MAY_PRINT, *EXPORTED):
        return []
    return [
        f"{module.name}:{node.lineno} prints"
        for node in module.of(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def escapes(module: Module) -> list[str]:
    """Functions of the standard library that escape or quote text, outside ``base.escaping``."""
    if module.name == "base.escaping":
        return []
    found = []
    for node in module.of(ast.Import, ast.ImportFrom, ast.Constant):
        names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        source = node.module if isinstance(node, ast.ImportFrom) else None
        bad = (source in ("html", "shlex") and set(names) - {"split", "unescape"}) or {"html", "shlex"} & set(names)
        if bad or (isinstance(node, ast.Constant) and node.value == "unicode_escape"):
            found.append(f"{module.name}:{node.lineno} escapes text: see base/escaping.py")
    return found


def careless(module: Module) -> list[str]:
    """Mutable defaults and bare excepts."""
    found = []
    for node in module.of(ast.ExceptHandler):
        if node.type is None:
            found.append(f"{module.name}:{node.lineno} bare except")
    for function in module.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        if any(_mutable(default) for default in defaults):
            found.append(f"{module.name}:{function.lineno} mutable default")
    return found


def _mutable(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("list", "dict", "set", "bytearray")
    return isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def version_branches(module: Module) -> list[str]:
    """Comparisons with a profile's name or version below scenarios, and profile names written into code."""
    found: list[str] = []
    docs = docstrings(module)
    fields = _dataclass_fields(module)
    if module.level < LEVEL["scenarios"] and not _finds_rule_sets(module):
        found += [f"{module.name}:{node.lineno} compares a name or version" for node in module.of(ast.Compare)
                  if any(_names_version(side, fields) for side in (node.left, *node.comparators))]  # fmt: skip
    if not _may_name_profiles(module):
        found += [f"{module.name}:{node.lineno} names a profile" for node in module.of(ast.Constant)
                  if isinstance(node.value, str) and "llama_cpp@" in node.value and id(node) not in docs]  # fmt: skip
    return found


def _finds_rule_sets(module: Module) -> bool:
    return module.parts[0] == "engines" and module.parts[-1] in REGISTRY


def _names_version(side: ast.expr, fields: set[str]) -> bool:
    if not isinstance(side, ast.Attribute) or side.attr not in ("name", "version"):
        return False
    return not (isinstance(side.value, ast.Name) and side.value.id in fields)


def _dataclass_fields(module: Module) -> set[str]:
    """Variables of ``for f in fields(...)``: their ``.name`` is that of a field, not of a profile."""
    return {
        node.target.id
        for node in module.of(ast.comprehension, ast.For)
        if isinstance(node.target, ast.Name)
        if isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "fields"
    }


def _may_name_profiles(module: Module) -> bool:
    return module.parts[0] in MAY_NAME_PROFILES or bool({"profiles", "history"} & {*module.parts[2:]})


def docstrings(module: Module) -> set[int]:
    """Ids of the string constants that are expression statements: prose, not code."""
    return {id(node.value) for node in module.of(ast.Expr)}


def outside_world(module: Module) -> list[str]:
    """Reading of clock, environment or global random state below the entrances."""
    if module.level >= LEVEL["cli"] or module.name in MAY_LOOK_OUTSIDE or module.name in EXPORTED:
        return []
    found = []
    outside = OUTSIDE_WORLD | {"environ", "getenv"}
    for node in module.of(ast.Import, ast.ImportFrom, ast.Attribute):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
            names += [alias.name for alias in node.names if alias.name in ("environ", "getenv")]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        if not outside.isdisjoint(names):
            found.append(f"{module.name}:{node.lineno} looks outside ({', '.join(names)})")
    return found


def unsourced_rules(module: Module) -> list[str]:
    """Functions under ``@rule(...)`` that give no role or no source, or no docstring."""
    found = []
    for function in functions(module):
        marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call) and _is_rule(mark)]
        if any(len(mark.args) + len(mark.keywords) < 3 for mark in marks):
            found.append(f"{module.name}.{function.name} names no role or no source")
        if marks and not ast.get_docstring(function):
            found.append(f"{module.name}.{function.name} does not say what it decides")
    return found


def _is_rule(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Call) and getattr(mark.func, "id", getattr(mark.func, "attr", "")) == "rule"


def undocumented(module: Module) -> list[str]:
    """Files without a docstring at the top."""
    return [] if ast.get_docstring(module.tree) or not module.text.strip() else [f"{module.name}: no docstring"]


PLAYS = frozenset({"run_judged", "play", "predicted", "explained", "Stage", "observed_requests", "judge"})
RUNNERS = frozenset({"runner", "judged_run", "api"})
"""Modules that run scenarios: imported whole, their functions have other names."""
DRAWS = frozenset({"picture", "playground"})
"""Tools that show recorded runs."""


def reports_that_play(module: Module) -> list[str]:
    """Imports and calls, in a report or a picture, of what plays or judges a scenario: it formats data."""
    is_report = re.search(r"(report|table|block|lines?)$", module.parts[-1])
    if module.parts[0] != "tools" or not (is_report or module.parts[1] in DRAWS):
        return []
    found = [f"{module.name} imports {to[-1]}" for to in imported(module) if {*to[-1:]} & (PLAYS | RUNNERS)]
    return found + [f"{module.name}:{node.lineno} simulates" for node in module.of(ast.Call) if _simulates(node)]


def _simulates(node: ast.Call) -> bool:
    """True if a call is of what plays or judges, or starts a server: ``engine.start(rules, model)``."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name in PLAYS or (name == "start" and len(node.args) > 1)


READS = frozenset({"read_text", "read_bytes", "fdopen", "fromfile", "memmap"})
ASKS = frozenset({"resolve", "exists", "is_file", "is_dir", "stat", "samefile"})
"""Methods of a path that raise for some names: too long, with a NUL, or of a link to itself."""
LOADS = {("json", "load"), ("tomllib", "load"), ("pickle", "load"), ("np", "load"), ("numpy", "load")}
OPENS = frozenset({"os", "io", "codecs", "gzip", "bz2", "lzma", "zipfile", "tarfile"})


def unbounded_reads(module: Module) -> list[str]:
    """Calls, above base, that read a file of any size and kind, or ask about a path and raise for some names."""
    if module.parts[0] == "base" or module.name in MAY_READ_FILES:
        return []
    return [f"{module.name}:{call.lineno} reads a file: see base/untrusted_files.py" for call in module.of(ast.Call)
            if _reads(call)]  # fmt: skip


def _reads(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and not _writes(call.args[1:], call)
    if not isinstance(call.func, ast.Attribute):
        return False
    of, name = call.func.value, call.func.attr
    if ast.unparse(of) == "Path(__file__)":
        return False
    place = of.id if isinstance(of, ast.Name) else ""
    if name == "open" and place not in OPENS:
        own = bool(call.args) and not isinstance(call.args[0], ast.Constant)     # a method of ours with this name
        return not own and not _writes(call.args, call)
    asks = name in ASKS and not (isinstance(of, ast.Attribute) and of.attr == "path")      # os.path never raises
    return name == "open" or name in READS or asks or (place, name) in LOADS


def _writes(modes: Sequence[ast.expr], call: ast.Call) -> bool:
    named = [one.value for one in call.keywords if one.arg == "mode"]
    found = [one.value for one in [*modes[:1], *named] if isinstance(one, ast.Constant)]
    return any(isinstance(mode, str) and mode[:1] in ("w", "a", "x") and "+" not in mode for mode in found)


TABLE_MAKERS: Mapping[str, str] = {
    "base.layout": "defines the table that cuts no cell",
    "picture.report_html": "turns a table into HTML",
    "rulebook.options_report": "uses a grid without numbers",
    "watch.report": "shows rows in place: their number is limited by the height of the terminal",
}
"""Modules that import rich's table, the part after ``tools``, with the reason of each."""


def tables_that_cut(module: Module) -> list[str]:
    """Imports of rich's table, which cuts numbers at narrow widths; reports use ``base.layout.WholeTable``."""
    if module.name.removeprefix("tools.") in TABLE_MAKERS:
        return []
    return [
        f"{module.name}:{node.lineno} imports rich's table: see WholeTable in base/layout.py"
        for node in module.of(ast.ImportFrom)
        if node.module == "rich.table"
        and "Table" in [name.name for name in node.names]
    ]


CHECKS = (
    bad_imports, reports_that_play, names_engines, prints, escapes, careless, version_branches,
    outside_world, unsourced_rules, undocumented, unbounded_reads, tables_that_cut, assumes_slots,
)  # fmt: skip
