"""Which engines are there? The one place that knows their names; everything above asks here, by name.

Besides those that come with cachesim there are engines and rule sets of installed packages (``plugins``), and rule sets
that somebody adds while we run.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib import import_module
from typing import Any, Callable, Iterable, Iterator, Mapping, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines import plugins
from cachesim.engines.contract import Engine
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_outcomes import graded_rules
from cachesim.engines.shared.rule_set import RuleSet

# Which engines come with cachesim? Each is imported when somebody asks for it: a third of the time in which a command
# starts is the import of engines.

class BuiltinEngines(Mapping[str, Engine]):
    """Engines by name, imported one by one."""

    names = ("llama_cpp", "ik_llama", "mlx_lm")

    def __getitem__(self, name: str) -> Engine:
        if name not in self.names:
            raise KeyError(name)
        engine: Engine = import_module(f"{__package__}.{name}").ENGINE
        return engine

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


BUILTIN = BuiltinEngines()
"""The engines that come with cachesim, by name; the first is meant where none is named."""

MODES = ("none", "provenance", "exact")
"""How much is computed: positions only; which token went where; that and the numbers."""

DEFAULT = next(iter(BUILTIN.values()))
"""The engine that is meant where none is named."""

PROFILE_HINT = "see cachesim profiles list; a build (b9700) or a date names one, too"
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9_]+@[A-Za-z0-9][A-Za-z0-9._+-]*")     # stands in files, on command lines, in file names


class Engines(Mapping[str, Engine]):
    """All engines by name. Those of installed packages are looked for when somebody asks for the first time; a shipped
    one is imported when it is asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Engine] = {}
        self._names, self._looked = list(BUILTIN), False

    def _all(self) -> list[str]:
        """The names of all engines."""
        if not self._looked:
            self._looked = True                # what is loaded may ask in its turn
            plugins.load_entry_points(plugins.ENGINES, self._take_engine)
            plugins.load_entry_points(plugins.PROFILES, self._take_rules)
        return self._names

    def __getitem__(self, name: str) -> Engine:
        if name not in self._all():
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = BUILTIN[name]
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _take_engine(self, engine: Any, origin: str) -> None:
        """Raises BadInput for what is no engine, and for names that are taken."""
        if not isinstance(engine, Engine):
            raise BadInput(f"not an Engine: {quoted(engine)}")
        mine = engine.name
        if mine in self._names:
            raise BadInput(f"there is an engine {quoted(mine)} already")
        for profile in engine.profiles:
            if not _NAME.fullmatch(profile) or profile.partition("@")[0] != mine:
                raise BadInput(f"the name of rule set {quoted(profile)} is not {mine}@NAME")
        notes = {profile: f"from {origin}" for profile in engine.profiles}
        self._known[mine] = replace(engine, notes={**notes, **engine.notes})
        self._names.append(mine)

    def _take_rules(self, brought: Any, origin: str) -> None:
        for one in rule_sets(brought):
            self.add(one, f"from {origin}")

    def add(self, rules: RuleSet, note: str, between: bool = False) -> None:
        """From now on this rule set is one of its engine's, beside the shipped one that it is most like, unless it lies
        ``between`` two of the main branch. ``note``: where it is from. Raises BadInput for a name that is taken or no
        name, and for rules of another engine."""
        name = rules.name if isinstance(rules.name, str) and _NAME.fullmatch(rules.name) else ""
        engine = self.get(name.partition("@")[0])
        if engine is None:
            raise BadInput(f"the name of rule set {quoted(rules.name)} is not ENGINE@NAME", hint=", ".join(self))
        if name in engine.profiles or name in engine.renamed or name == f"{engine.name}@latest":
            raise BadInput(f"there is a rule set {quoted(name)} already", hint="give yours a name of its own")
        alike = [one for one in engine.profiles.values() if isinstance(rules, type(one))]
        if not alike:
            raise BadInput(f"{quoted(name)} is not a rule set of {engine.name}", hint=f"it is a {type(rules).__name__}")
        _check(rules, alike[0])
        base = min(alike, key=lambda one: len(one.changes(rules)))
        beside = engine.beside if between else {**engine.beside, name: base.name}
        profiles, notes = {**engine.profiles, name: rules}, {**engine.notes, name: note}
        self._known[engine.name] = replace(engine, profiles=profiles, beside=beside, notes=notes)


def _check(rules: RuleSet, like: RuleSet) -> None:
    """Raises BadInput for a field that cannot stand where that of another rule set of the engine does."""
    theirs = graded_rules(like)
    for field, value in rules.fields().items():
        if field in theirs:
            try:
                _check_rule(value, theirs[field])
            except BadInput as bad:
                raise BadInput(f"{field} of {quoted(rules.name)} {bad.cause}", hint=bad.hint) from None


def _check_rule(value: Any, like: Callable[..., Any]) -> None:
    if not hasattr(value, "about"):
        raise BadInput(f"is no rule: {quoted(value)}", hint="@rule(ID, ROLE, SOURCE) above a function makes one")
    if RULES.get(value.rule) != value:
        raise BadInput(f"has the id {value.rule}, which is used twice")
    if hasattr(like, "__wrapped__") and not hasattr(value, "__wrapped__"):
        raise BadInput("does not say that it returns a decision", hint=f"def {value.__name__}(...) -> Decision:")
    mine, most = inspect.signature(value).parameters.values(), len(inspect.signature(like).parameters)
    needed = [one for one in mine if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    if len(needed) > most or (len(mine) < most and not any(one.kind is one.VAR_POSITIONAL for one in mine)):
        raise BadInput(f"is not called as {like.__name__}{inspect.signature(like)}")


ENGINES = Engines()


class ProfileView(Mapping[str, T]):
    """What ``of`` says about an engine, by names that begin with the engine's and an @. Only the engine of the name
    that is looked up is imported; all of them for a list of the names."""

    def __init__(self, of: Callable[[Engine], Mapping[str, T]]) -> None:
        self._of = of

    def __getitem__(self, name: str) -> T:
        return self._of(ENGINES[name.partition("@")[0]])[name]

    def __iter__(self) -> Iterator[str]:
        return (name for engine in ENGINES.values() for name in self._of(engine))

    def __len__(self) -> int:
        return sum(len(self._of(engine)) for engine in ENGINES.values())


def add(rules: RuleSet, note: str, between: bool = False) -> None:
    """``ENGINES.add``."""
    ENGINES.add(rules, note, between)


def rule_sets(brought: Any) -> list[RuleSet]:
    """The rule sets that are meant by one, a list of them, or a module: what it names without an underscore in front,
    those aside that were there before. Raises BadInput where there is none."""
    if isinstance(brought, RuleSet):
        return [brought]
    named = {name: value for name, value in getattr(brought, "__dict__", {}).items() if not name.startswith("_")}
    values: Iterable[Any] = brought if isinstance(brought, list | tuple) else named.values()
    there = {id(one) for one in profiles().values()}
    found = {id(one): one for one in values if isinstance(one, RuleSet) and id(one) not in there}
    if not found:
        raise BadInput("no rule set in it")
    return list(found.values())


def profiles() -> Mapping[str, RuleSet]:
    """All profiles of all engines, by name."""
    return ProfileView(lambda engine: engine.profiles)


def rules_of(profile: str) -> RuleSet:
    """The rule set of this name. Raises BadInput for an unknown profile."""
    return engine_of(profile).rules(profile)


def engine_of(profile: str) -> Engine:
    """The engine that a profile belongs to. Raises BadInput for an unknown profile."""
    engine = ENGINES.get(profile.partition("@")[0])
    if engine is None or profile not in engine.profiles:
        raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, profiles()) or PROFILE_HINT)
    return engine


def engine_named(name: str) -> Engine:
    """The engine of this name. Raises BadInput for an unknown one."""
    if name not in ENGINES:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, ENGINES) or ", ".join(ENGINES))
    return ENGINES[name]


def recorded_as(name: str) -> Engine:
    """The engine whose recordings bear this name. Raises BadInput for an unknown one."""
    known = {engine.recorded.name: engine for engine in ENGINES.values()}
    if name not in known:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, known))
    return known[name]


def commits() -> Mapping[str, str]:
    """Commit (or build) of a recording that names no profile -> profile."""
    return {commit: name for engine in ENGINES.values() for commit, name in engine.recorded.commits.items()}


def latest() -> Mapping[str, str]:
    """``<engine>@latest`` -> the newest recorded profile of the engine."""
    return ProfileView(lambda engine: {f"{engine.name}@latest": engine.newest} if engine.newest else {})


def renamed() -> Mapping[str, str]:
    """Old names of profiles -> present ones."""
    return ProfileView(lambda engine: engine.renamed)


def notes() -> Mapping[str, str]:
    """What a reader of a profile's name should know, by profile."""
    return ProfileView(lambda engine: engine.notes)
