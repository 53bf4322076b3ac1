"""Results of a scenario under many rule sets, each run that several rule sets share made once.

Rules are pure. A rule set that answers every question of a run like the rules of that run, and agrees in the other
fields that the run read, would repeat it, so that it gets the result of that run. While a run is made, every rule of
the other rule sets answers the same questions.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Callable, Generic, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeGuard, TypeVar

from cachesim.engines.rule_outcomes import DecisionLimiter, is_same_answer
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS, RuleSet, is_table

R = TypeVar("R")
T = TypeVar("T")
RuleFunction = Callable[..., Any]
WITNESS = "_witness"
"""Attribute of a watched table: its witness, and the prefix of its fields."""
NEAR = ""
"""Name under which the rules of a near rule set are followed to the end of a run."""


def is_rule(value: object) -> TypeGuard[RuleFunction]:
    """True for a value of a field that is a rule."""
    return callable(value) and hasattr(value, "about")


class FieldVariant(NamedTuple):
    """A value that a field has in the rule sets ``names``."""

    value: Any
    names: frozenset[str]


Columns = Mapping[str, Sequence[FieldVariant]]
"""Field -> its values. Fields with the same value in every rule set are left out."""


def columns_of(tables: Mapping[str, RuleSet]) -> Columns:
    """Return the values of the fields in which rule sets differ. ``tables``: the rule sets by name."""
    if not tables:
        return {}
    first = next(iter(tables.values())).fields()
    others: dict[str, dict[int, tuple[Any, set[str]]]] = {}     # field -> values that the first rule set does not have
    for name, table in tables.items():
        for field, value in table.fields().items():
            if value is not first[field]:
                others.setdefault(field, {}).setdefault(id(value), (value, set()))[1].add(name)
    found = {}
    for field, values in others.items():
        variants = [FieldVariant(value, frozenset(names)) for value, names in values.values()]
        rest = tables.keys() - set[str]().union(*(variant.names for variant in variants))
        found[field] = [FieldVariant(first[field], frozenset(rest)), *variants]
    return found


class SharedRuns(Generic[R]):
    """Results of runs. ``run``: makes a run under a rule set and returns its result; ``tables``: the rule sets of which
    results will be asked; ``log``: rule sets with different logs share no run."""

    def __init__(self, run: Callable[[RuleSet], R], tables: Iterable[RuleSet], log: bool) -> None:
        self.run = run
        self.log = log
        self.tables = {table.name: table for table in tables}
        self.left = set(self.tables)                # names of the rule sets without a result
        self.columns = columns_of(self.tables)
        self.known: dict[str, R] = {}               # results of rule sets that shared a run
        self.made: list[tuple[_Witness, R]] = []
        self.limiter = DecisionLimiter()

    def result(self, rules: RuleSet, near: RuleSet | None = None) -> R:
        """Return the result under a rule set. ``near``: rule set whose rules will be exchanged one by one. Raise what
        ``run`` raises."""
        self.left.discard(rules.name)
        if rules.name in self.known and self.tables[rules.name] is rules:
            return self.known[rules.name]
        shared = self.find(rules)
        if shared is not None:
            return shared
        witness = _Witness(rules, self.columns, self._candidates(rules), near, self.log)
        result = self.run(witness.watched)
        self.made.append((witness, result))
        sharing = witness.followed & self.left
        self.known |= dict.fromkeys(sharing, result)
        self.left -= sharing
        return result

    def _candidates(self, rules: RuleSet) -> set[str]:
        """Return the names of the rule sets that may share a run with ``rules``: not those with another number in a
        field that the latest run read, because most runs read the same fields."""
        found = set(self.left)
        if not self.made:
            return found
        witness, _ = self.made[-1]
        mine = rules.fields()
        for field, variants in self.columns.items():
            if is_rule(mine[field]) or field in witness.unread or witness.is_irrelevant(field):
                continue
            for variant in variants:
                if variant.value is not mine[field] and variant.value != mine[field]:
                    found -= variant.names
        return found

    def unshared(self, rules: RuleSet, most_decisions: int = 0) -> R:
        """Return the result under a mixture of rule sets, which no other shares: a new run is not watched. Raise
        TooManyDecisions, too, if it makes more than ``most_decisions`` (0 = any number)."""
        shared = self.find(rules)
        if shared is not None:
            return shared
        return self.run(self.limiter.limit(rules, most_decisions) if most_decisions else rules)

    def find(self, rules: RuleSet) -> R | None:
        """Return the result of an earlier run that a run under this rule set would repeat, None without one."""
        fields = rules.fields()
        for witness, result in self.made:
            if witness.covers(fields):
                return result
        return None


class _WatchedField:
    """Field of a watched table. The first read gets the value from the witness of the table, and stores it in the
    instance."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, rules: Any, kind: type) -> Any:
        witness, prefix = vars(rules)[WITNESS]
        value = vars(rules)[self.name] = witness.read(prefix + self.name)
        return value


def _derived(rules: RuleSet, field: str, read: Callable[[Any], T]) -> T:
    """Method ``derived`` of a watched rule set."""
    if field in vars(rules):                    # its whole value was read
        return read(vars(rules)[field])
    witness, _ = vars(rules)[WITNESS]
    found: T = witness.derive(field, read)
    return found


@cache
def _watched_kind(kind: Any) -> Any:
    """Return the subclass of a table's class whose instances get their values from a witness when they are read."""
    watched = {one.name: _WatchedField(one.name) for one in fields(kind)}
    return type(kind.__name__, (kind,), {**watched, "derived": _derived})


def _watched_table(table: T, witness: _Witness, prefix: str = "") -> T:
    """Return a copy of a rule set, or of a table in it, of which ``witness`` records what is read."""
    kind: Any = type(table)
    copy: T = object.__new__(_watched_kind(kind))
    vars(copy)[WITNESS] = witness, prefix
    for name, value in vars(table).items():
        if is_table(value):
            vars(copy)[name] = _watched_table(value, witness, f"{name}.")
    return copy


class _Witness:
    """What a run under ``rules`` asked and read. ``watched``: the same rules, which record this.

    ``unread``: fields that the run did not read. ``derivations``: what it derived from such fields. ``alike``: rules of
    other rule sets that have answered every question of a field alike. ``followed``: rule sets that share the run so
    far. The rules of others are not asked any more, except those of ``near``.
    """

    def __init__(
        self, rules: RuleSet, columns: Columns, candidates: set[str], near: RuleSet | None, log: bool
    ) -> None:
        self.log = log
        self.fields = rules.fields()
        self.columns = columns
        self.near = {} if near is None else near.fields()
        self.followed = candidates if near is None else candidates | {NEAR}
        self.asked: set[str] = set()
        self.alike: dict[str, dict[RuleFunction, frozenset[str]]] = {}
        self.derivations: dict[str, list[tuple[Callable[[Any], Any], Any]]] = {}
        self.unread = {*self.fields}
        self.watched = _watched_table(rules, self)

    def _variants(self, field: str) -> Iterator[FieldVariant]:
        """Yield the other values of a field in the rule sets that share the run so far."""
        mine = self.fields[field]
        for variant in self.columns.get(field, ()):
            if variant.value is not mine and not self.followed.isdisjoint(variant.names):
                yield variant
        if self.near and self.near[field] is not mine:
            yield FieldVariant(self.near[field], frozenset((NEAR,)))

    def _drop(self, names: frozenset[str]) -> None:
        """End the comparison with rule sets that share nothing with this run; the rules of ``near`` stay."""
        self.followed -= names - {NEAR}

    def read(self, field: str) -> Any:
        """Record the first read of a field, and return its value: a rule as one that is compared with others."""
        self.unread.discard(field)
        mine = self.fields[field]
        if self.is_irrelevant(field):
            return mine
        if is_rule(mine):
            self.alike[field] = {}
        for value, names in self._variants(field):
            if is_rule(value) and is_rule(mine):
                alike = self.alike[field]
                alike[value] = alike.get(value, frozenset()) | names
            elif value != mine:
                self._drop(names)
        return self._compared(field, mine) if is_rule(mine) else mine

    def derive(self, field: str, read: Callable[[Any], T]) -> T:
        """Record what a run derives from a field, and return it."""
        found = read(self.fields[field])
        self.derivations.setdefault(field, []).append((read, found))
        for value, names in [*self._variants(field)]:
            if read(value) != found:
                self._drop(names)
        return found

    def covers(self, fields: Mapping[str, Any]) -> bool:
        """True if the run under a rule set with these fields repeats this one."""
        for field, value in fields.items():
            mine = self.fields.get(field)
            if value is not mine and not self._agrees(field, value, mine):
                return False
        return True

    def _agrees(self, field: str, value: Any, mine: Any) -> bool:
        """True if another value of a field changes nothing in this run."""
        if self.is_irrelevant(field):
            return True
        if field in self.unread:
            return all(read(value) == found for read, found in self.derivations.get(field, ()))
        if is_rule(value) and is_rule(mine):
            return field not in self.asked or value in self.alike[field]
        return bool(value == mine)

    def is_irrelevant(self, field: str) -> bool:
        """True for a field that no result depends on."""
        described = field in DESCRIPTION_FIELDS and field != "unset"
        return described or (field in LOG_FIELDS and not self.log)

    def _compared(self, field: str, rule: RuleFunction) -> RuleFunction:
        """Return a rule that answers like ``rule`` and removes every rule that answers otherwise, or is not asked any
        more, from ``alike``. A rule without a Decision may change its arguments, so that no other rule counts as
        alike."""
        alike = self.alike[field]
        is_pure = hasattr(rule, "__wrapped__")

        def compared(*args: Any) -> Any:
            self.asked.add(field)
            answer = rule(*args)
            for fn, names in [*alike.items()]:
                if self.followed.isdisjoint(names):
                    del alike[fn]
                elif not (is_pure and self._answers(fn, args, answer)):
                    del alike[fn]
                    self._drop(names)
            return answer

        # Many rules are wrapped for every run, and ``functools.wraps`` takes longer.
        vars(compared).update(vars(rule), __wrapped__=rule)
        return compared

    def _answers(self, fn: RuleFunction, args: Any, answer: Any) -> bool:
        """True if another rule gives this answer. A rule that fails on the arguments gives another one."""
        try:
            given = fn(*args)
        except Exception:
            return False
        return is_same_answer(answer, given) and (not self.log or answer.because == given.because)
