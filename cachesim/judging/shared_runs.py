"""Results of a scenario under many rule sets, each run that several rule sets share made once.

Rules are pure. A rule set that answers every question of a run like the rules of that run, and agrees in the other
fields that the run read, would repeat it, so that it gets the result of that run. While a run is made, every rule of
the other rule sets answers the same questions.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, Generic, Iterable, Mapping, TypeGuard, TypeVar

from cachesim.engines.rule_outcomes import is_same_answer, limit_decisions
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS, RuleSet, is_table, table_fields

R = TypeVar("R")
T = TypeVar("T")
RuleFunction = Callable[..., Any]
NEAR = ""
"""Name under which the rules of a near rule set are followed to the end of a run."""


def is_rule(value: object) -> TypeGuard[RuleFunction]:
    """True for a value of a field that is a rule."""
    return callable(value) and hasattr(value, "about")


class SharedRuns(Generic[R]):
    """Results of runs. ``run``: makes a run under a rule set and returns its result; ``tables``: the rule sets of which
    results will be asked; ``log``: rule sets with different logs share no run."""

    def __init__(self, run: Callable[[RuleSet], R], tables: Iterable[RuleSet], log: bool) -> None:
        self.run = run
        self.log = log
        self.left = {table.name: table for table in tables}
        self.made: list[tuple[_Witness, R]] = []

    def result(self, rules: RuleSet, near: RuleSet | None = None) -> R:
        """Return the result under a rule set. ``near``: rule set whose rules will be exchanged one by one. Raise what
        ``run`` raises."""
        self.left.pop(rules.name, None)
        shared = self.find(rules)
        if shared is not None:
            return shared
        witness = _Witness(rules, self._candidates(rules), near, self.log)
        result = self.run(witness.watched)
        self.made.append((witness, result))
        return result

    def _candidates(self, rules: RuleSet) -> list[RuleSet]:
        """Return the rule sets that may share a run with ``rules``: not those with another number in a field that the
        latest run read, because most runs read the same fields."""
        if not self.made:
            return [*self.left.values()]
        witness, _ = self.made[-1]
        mine = rules.fields()
        numbers = [field for field in witness.read if not is_rule(mine[field]) and not witness.is_irrelevant(field)]

        def agrees(theirs: Mapping[str, object]) -> bool:
            return all(mine[field] is theirs[field] or mine[field] == theirs[field] for field in numbers)

        return [other for other in self.left.values() if agrees(other.fields())]

    def unshared(self, rules: RuleSet, most_decisions: int = 0) -> R:
        """Return the result under a mixture of rule sets, which no other shares: a new run is not watched. Raise
        TooManyDecisions, too, if it makes more than ``most_decisions`` (0 = any number)."""
        shared = self.find(rules)
        if shared is not None:
            return shared
        return self.run(limit_decisions(rules, most_decisions) if most_decisions else rules)

    def find(self, rules: RuleSet) -> R | None:
        """Return the result of an earlier run that a run under this rule set would repeat, None without one."""
        for witness, result in self.made:
            if witness.covers(rules):
                return result
        return None


class _WatchedField:
    """Field of a watched rule set; ``witness`` records that a driver reads it."""

    def __init__(self, name: str, path: str, witness: _Witness) -> None:
        self.name = name
        self.path = path
        self.witness = witness

    def __get__(self, rules: Any, kind: type | None = None) -> Any:
        self.witness.reads(self.path)
        return vars(rules)[self.name]

    def __set__(self, rules: Any, value: Any) -> None:
        vars(rules)[self.name] = value          # a copy of the rule set is watched, too


def _watched_fields(table: T, witness: _Witness, prefix: str = "") -> T:
    """Return a copy of a rule set, or of a table in it, whose reads ``witness`` records by path."""
    kind = type(table)
    fields = table_fields(table)
    inner = {name: _watched_fields(value, witness, f"{name}.") for name, value in fields.items() if is_table(value)}
    watched = {name: _WatchedField(name, prefix + name, witness) for name in fields if name not in inner}
    copy: T = object.__new__(type(kind.__name__, (kind,), watched))
    vars(copy).update({**fields, **inner})
    return copy


class _Witness:
    """What a run under ``rules`` asked and read. ``watched``: the same rules, which record this.

    ``alike``: rules of other rule sets that have answered every question of a field alike. A rule set whose first
    answer differs shares nothing with this run, and its rules are not asked any more, except those of ``near``.
    """

    def __init__(self, rules: RuleSet, others: Iterable[RuleSet], near: RuleSet | None, log: bool) -> None:
        self.log = log
        self.fields = rules.fields()
        self.read: set[str] = set()
        self.asked: set[str] = set()
        self.alike: dict[str, dict[RuleFunction, set[str]]] = {}
        self.values: dict[str, list[tuple[str, Any]]] = {}      # other values of a field, with their rule sets
        self.live: dict[str, list[tuple[str, RuleFunction]]] = {}
        for other in others:
            self._follow(other, other.name)
        if near is not None:
            self._follow(near, NEAR)
        spies = {field: self._watched(field, rules.rules_by_field[field]) for field in self.alike}
        self.watched = _watched_fields(rules.changed(spies), self)

    def _follow(self, rules: RuleSet, name: str) -> None:
        """Begin to compare with another rule set."""
        self.live[name] = []
        changed = [(field, value) for field, value in rules.fields().items() if value is not self.fields[field]]
        for field, value in changed:
            if self.is_irrelevant(field):
                continue
            if is_rule(value) and is_rule(self.fields[field]):
                self.alike.setdefault(field, {}).setdefault(value, set()).add(name)
                self.live[name].append((field, value))
            else:
                self.values.setdefault(field, []).append((name, value))

    def _drop(self, names: Iterable[str]) -> None:
        """End the comparison with rule sets that share nothing with this run; the rules of ``near`` stay."""
        for name in set(names) - {NEAR}:
            for field, fn in self.live.pop(name, ()):
                holders = self.alike[field].get(fn, set())
                holders.discard(name)
                if not holders:
                    self.alike[field].pop(fn, None)

    def reads(self, field: str) -> None:
        """Record that a driver reads a field."""
        if field not in self.read:
            self.read.add(field)
            mine = self.fields[field]
            self._drop([name for name, value in self.values.get(field, ()) if value != mine])

    def covers(self, rules: RuleSet) -> bool:
        """True if the run under another rule set repeats this one."""
        return all(self._agrees(field, value, self.fields.get(field)) for field, value in rules.fields().items())

    def _agrees(self, field: str, value: Any, mine: Any) -> bool:
        """True if another value of a field changes nothing in this run."""
        if value is mine or field not in self.read or self.is_irrelevant(field):
            return True
        if is_rule(value) and is_rule(mine):
            return field in self.alike and (field not in self.asked or value in self.alike[field])
        return bool(value == mine)

    def is_irrelevant(self, field: str) -> bool:
        """True for a field that no result depends on."""
        described = field in DESCRIPTION_FIELDS and field != "unset"
        return described or (field in LOG_FIELDS and not self.log)

    def _watched(self, field: str, rule: RuleFunction) -> RuleFunction:
        """Return a rule that answers like ``rule`` and removes every rule that answers otherwise from ``alike``. A rule
        without a Decision may change its arguments, so that no other rule counts as alike."""
        alike = self.alike[field]
        is_pure = hasattr(rule, "__wrapped__")

        @wraps(rule)
        def watched(*args: Any) -> Any:
            self.asked.add(field)
            answer = rule(*args)
            for fn in [fn for fn in alike if not (is_pure and self._answers(fn, args, answer))]:
                self._drop(alike.pop(fn))
            return answer

        return watched

    def _answers(self, fn: RuleFunction, args: Any, answer: Any) -> bool:
        """True if another rule gives this answer. A rule that fails on the arguments gives another one."""
        try:
            given = fn(*args)
        except Exception:
            return False
        return is_same_answer(answer, given) and (not self.log or answer.because == given.because)
