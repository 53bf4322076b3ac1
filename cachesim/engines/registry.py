"""Registry of engines. All other parts look engines up by name; the names are listed in ``newest``.

Engines and rule sets come with cachesim, from installed packages (``plugins``), or are registered at run time.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines import plugins
from cachesim.engines.contract import Engine
from cachesim.engines.newest import BUILTIN_NAMES
from cachesim.engines.rule import RULES, Role, role_of
from cachesim.engines.rule_outcomes import graded_rules
from cachesim.engines.shared.engine_face import log_of
from cachesim.engines.shared.rule_set import RuleSet

if TYPE_CHECKING:
    from cachesim.engines.shared.log_grammar import LogGrammar


class BuiltinEngines(Mapping[str, Engine]):
    """Engines of the package by name. Each is imported on first use, and its rules with its first rule set."""

    names = BUILTIN_NAMES

    def __getitem__(self, name: str) -> Engine:
        if name not in self.names:
            raise KeyError(name)
        engine: Engine = import_module(f"{__package__}.{name}.engine").ENGINE
        return engine

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


BUILTIN = BuiltinEngines()
"""The engines that come with cachesim, by name."""

MODES = ("none", "provenance", "exact")
"""Modes of computation: positions only; provenance of rows and states; provenance and numbers."""

DEFAULT = next(iter(BUILTIN.values()))
"""The engine that is used if no engine is given: the first built-in one."""

PROFILE_HINT = "see cachesim profiles list; a build (b9700) or a date names one, too"
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9_]+@[A-Za-z0-9][A-Za-z0-9._+-]*")     # stands in files, on command lines, in file names


class Engines(Mapping[str, Engine]):
    """All engines by name. Installed packages are searched on the first access; a built-in engine is imported on its
    first access."""

    def __init__(self) -> None:
        self._known: dict[str, Engine] = {}
        self._names, self._looked = list(BUILTIN), False

    def _all(self) -> list[str]:
        """Return the names of all engines."""
        if not self._looked:
            self._looked = True                # set first: a loaded package may use the registry
            plugins.load_entry_points(plugins.ENGINES, self._take_engine)
            plugins.load_entry_points(plugins.PROFILES, self._take_rules)
        return self._names

    def __getitem__(self, name: str) -> Engine:
        if name not in self._all():
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = BUILTIN[name]
        return self._known[name]

    def log_grammars(self) -> dict[str, LogGrammar]:
        """Return the grammar of the log of each engine's server. Built-in engines are not imported for it, because a
        log is read before its engine is known."""
        return {name: self._log_of(name)() for name in self._all()}

    def _log_of(self, name: str) -> Callable[[], LogGrammar]:
        return log_of(f"{__package__}.{name}") if name in BUILTIN.names else self[name].log

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _take_engine(self, engine: Any, origin: str) -> None:
        """Register an engine of an installed package. Raise BadInput for an object that is not an Engine and for names
        that are already taken."""
        if not isinstance(engine, Engine):
            raise BadInput(f"not an Engine: {quoted(engine)}")
        own_name = engine.name
        if own_name in self._names:
            raise BadInput(f"engine name already taken: {quoted(own_name)}")
        for profile in engine.profiles:
            if not _NAME.fullmatch(profile) or profile.partition("@")[0] != own_name:
                raise BadInput(f"rule set name {quoted(profile)}, expected {own_name}@NAME")
        notes = {profile: f"from {origin}" for profile in engine.profiles}
        self._known[own_name] = replace(engine, notes={**notes, **engine.notes})
        self._names.append(own_name)

    def _take_rules(self, brought: Any, origin: str) -> None:
        for rules in rule_sets(brought):
            self.add(rules, f"from {origin}")

    def add(self, rules: RuleSet, note: str, between: bool = False) -> None:
        """Register a rule set with its engine, as a sibling of the built-in rule set that it differs least from; with
        ``between`` it belongs to the main branch, between two recorded rule sets. ``note``: its origin. Raise BadInput
        for an invalid name, for a name that is already taken, and for rules of another engine."""
        name = rules.name if isinstance(rules.name, str) and _NAME.fullmatch(rules.name) else ""
        engine = self.get(name.partition("@")[0])
        if engine is None:
            raise BadInput(f"rule set name {quoted(rules.name)}, expected ENGINE@NAME", hint=", ".join(self))
        if name in engine.profiles or name == f"{engine.name}@latest":
            raise BadInput(f"rule set name already taken: {quoted(name)}", hint="choose another name")
        alike = [known for known in engine.profiles.values() if isinstance(rules, type(known))]
        if not alike:
            raise BadInput(f"{quoted(name)} is not a rule set of {engine.name}", hint=f"it is a {type(rules).__name__}")
        beside = engine.beside
        if not between:                        # composed of fields that were checked already
            _check(rules, alike)
            beside = {**beside, name: min(alike, key=lambda known: len(known.changes(rules))).name}
        profiles, notes = {**engine.profiles, name: rules}, {**engine.notes, name: note}
        self._known[engine.name] = replace(engine, profiles=profiles, beside=beside, notes=notes)


def _check(rules: RuleSet, known: Sequence[RuleSet]) -> None:
    """Raise BadInput for a field that cannot replace the corresponding field of the known rule sets of the engine. A
    field that is None in one of them, because its version has no such rule, may be None."""
    theirs: dict[str, Callable[..., Any]] = {}
    for like in reversed(known):
        theirs |= graded_rules(like)
    for field, value in rules.fields().items():
        if field in theirs and (value is not None or all(like.fields()[field] is not None for like in known)):
            try:
                _check_rule(value, theirs[field])
            except BadInput as bad:
                raise BadInput(f"{field} of {quoted(rules.name)} {bad.cause}", hint=bad.hint) from None


def _check_rule(value: Any, like: Callable[..., Any]) -> None:
    if not hasattr(value, "about"):
        raise BadInput(f"is not a rule: {quoted(value)}", hint="decorate the function with @rule(ID, ROLE, SOURCE)")
    if RULES.get(value.rule) != value:
        raise BadInput(f"has the id of another rule: {value.rule}")
    if hasattr(like, "__wrapped__") and not hasattr(value, "__wrapped__"):
        raise BadInput("lacks the return annotation Decision", hint=f"write def {value.__name__}(...) -> Decision:")
    params, most = inspect.signature(value).parameters.values(), len(inspect.signature(like).parameters)
    needed = [param for param in params if param.default is param.empty and param.kind is not param.VAR_POSITIONAL]
    if len(needed) > most or (len(params) < most and not any(param.kind is param.VAR_POSITIONAL for param in params)):
        raise BadInput(f"does not accept the arguments of {like.__name__}{inspect.signature(like)}")


ENGINES = Engines()


class ProfileView(Mapping[str, T]):
    """View of a table of every engine (selected by ``of``), by names that begin with the engine's name and "@". A
    lookup imports only the engine of that name; iteration imports all engines."""

    def __init__(self, of: Callable[[Engine], Mapping[str, T]]) -> None:
        self._of = of

    def __getitem__(self, name: str) -> T:
        return self._of(ENGINES[name.partition("@")[0]])[name]

    def __iter__(self) -> Iterator[str]:
        return (name for engine in ENGINES.values() for name in self._of(engine))

    def __len__(self) -> int:
        return sum(len(self._of(engine)) for engine in ENGINES.values())


def add(rules: RuleSet, note: str, between: bool = False) -> None:
    """Register a rule set: shorthand for ``ENGINES.add``."""
    ENGINES.add(rules, note, between)


def rule_sets(brought: Any) -> list[RuleSet]:
    """Return the rule sets in ``brought``: a rule set, a list of rule sets, or a module. For a module these are the
    public variables (no leading underscore) that hold rule sets not yet registered. Raise BadInput if
    ``brought`` contains no rule set."""
    if isinstance(brought, RuleSet):
        return [brought]
    named = {name: value for name, value in getattr(brought, "__dict__", {}).items() if not name.startswith("_")}
    values: Iterable[Any] = brought if isinstance(brought, list | tuple) else named.values()
    known = {id(rules) for rules in profiles().values()}
    found = {id(value): value for value in values if isinstance(value, RuleSet) and id(value) not in known}
    if not found:
        raise BadInput("contains no rule set")
    return list(found.values())


def profiles() -> Mapping[str, RuleSet]:
    """Return all profiles of all engines, by name."""
    return ProfileView(lambda engine: engine.profiles)


def rules_of(profile: str) -> RuleSet:
    """Return the rule set of this name. Raise BadInput for an unknown profile."""
    return engine_of(profile).rules(profile)


def engine_of(profile: str) -> Engine:
    """Return the engine of a profile. Raise BadInput for an unknown profile."""
    engine = ENGINES.get(profile.partition("@")[0])
    if engine is None or profile not in engine.profiles:
        raise BadInput(f"unknown profile {quoted(profile)}", hint=near_profile(profile, profiles()))
    return engine


def near_profile(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown profile: the closest name of a profile or an engine, else how to find one."""
    return nearest(name, [*ENGINES, "latest", *latest(), *sorted(known)]) or PROFILE_HINT


def engine_named(name: str) -> Engine:
    """Return the engine of this name. Raise BadInput for an unknown name."""
    if name not in ENGINES:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, ENGINES) or ", ".join(ENGINES))
    return ENGINES[name]


def recorded_as(name: str) -> Engine:
    """Return the engine with this name in recordings. Raise BadInput for an unknown name."""
    known = {engine.recorded.name: engine for engine in ENGINES.values()}
    if name not in known:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, known))
    return known[name]


def commits() -> Mapping[str, str]:
    """Map the commit (or build) of a recording without profile to its profile."""
    return {commit: name for engine in ENGINES.values() for commit, name in engine.recorded.commits.items()}


def latest() -> Mapping[str, str]:
    """Map ``<engine>@latest`` to the newest recorded profile of the engine."""
    return ProfileView(lambda engine: {f"{engine.name}@latest": engine.newest} if engine.newest else {})


def present_name(text: str) -> str:
    """Return the profile that ``<engine>@latest`` or an engine (its newest) denotes, else the text."""
    if text in ENGINES:
        return ENGINES[text].newest or next(reversed(ENGINES[text].line), text)
    return latest().get(text) or text


def written_name(text: str) -> str:
    """Return ``ENGINE`` or ``ENGINE@NAME`` for a name as people write it, else the text: ``vLLM`` is ``vllm``,
    ``llama.cpp-b9713`` is ``llama_cpp@b9713``, ``vllm==0.33.0`` and ``vllm v0.33.0`` are ``vllm@0.33.0``. A name that
    begins with an engine's own name and "@" is left as it is."""
    if text.partition("@")[0] in ENGINES:
        return text
    for engine in ENGINES.values():
        for spelling in (engine.recorded.name, engine.name):
            letters = "[-_. ]?".join(map(re.escape, re.split("[-_. ]", spelling)))
            if found := re.fullmatch(rf"{letters}(?:\[[\w,-]*\])?(?:(?:==?|[-@:/ ])\s*v?(\w[\w.+-]*))?", text, re.I):
                return f"{engine.name}@{found[1]}" if found[1] else engine.name
    return text


def role_of_rule(rule_id: str) -> Role | None:
    """Return the role of a rule, None if no engine has it. Imports the rules of the engines until one has it."""
    engines = iter(ENGINES.values())
    while rule_id and rule_id not in RULES:
        engine = next(engines, None)
        if engine is None:
            break
        engine.load_rules()
    return role_of(rule_id)


def notes() -> Mapping[str, str]:
    """Map profiles to remarks for their readers."""
    return ProfileView(lambda engine: engine.notes)
