"""Rule sets in which single rules are exchanged for those of other rule sets of the engine.

Rules are pure. A variant that answers every question of a run like the rule that it replaces changes nothing in that
run, so that it needs no run of its own.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, TypeVar

from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.rule import about
from cachesim.engines.rule_outcomes import graded_rules, is_same_answer
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS, RuleSet, is_table

T = TypeVar("T", bound=RuleSet)
RuleFunction = Callable[..., Any]
START = -1
"""Request number of decisions that the server makes when it starts."""


class RuleVariant(NamedTuple):
    """A replacement of a rule: the table's field, the ids of the two rules, and a rule set that has the new rule."""

    field: str
    old: str
    new: str
    profile: str


def variants(profile: str) -> list[RuleVariant]:
    """Return every variant of a profile, in the order of the engine's rule sets and of the table's fields. Rules that
    only change the log are left out."""
    return variants_in(rules_of(profile), engine_of(profile).profiles.values())


def variants_in(rules: RuleSet, tables: Iterable[RuleSet], numbers: bool = False) -> list[RuleVariant]:
    """Return the variants of a rule set that these rule sets have, each from the first of them. With ``numbers`` also
    their other numbers, named by their fields."""
    mine = rules.fields()
    found: dict[tuple[str, str], RuleVariant] = {}
    seen: set[tuple[str, int]] = set()                 # neighbours share most of their values
    for table in tables:
        for field, new in table.fields().items():
            old = mine.get(field)
            if field in LOG_FIELDS or new is old or (field, id(new)) in seen:
                continue
            seen.add((field, id(new)))
            if is_compatible(old, new):
                found.setdefault((field, new.rule), RuleVariant(field, old.rule, new.rule, table.name))  # type: ignore
            elif numbers and is_number(field, old) and is_number(field, new) and old != new:
                found.setdefault((field, str(new)), RuleVariant(field, field, f"{field} {new}", table.name))
    return list(found.values())


def is_compatible(old: object, new: object) -> bool:
    """True if ``new`` is a rule that can answer the questions of the rule ``old``: the same role, arguments that fit,
    and a ``Decision`` if ``old`` returns one."""
    if not (callable(old) and callable(new) and hasattr(old, "about") and hasattr(new, "about")):
        return False
    if about(old).role is not about(new).role or hasattr(old, "__wrapped__") != hasattr(new, "__wrapped__"):
        return False
    asked = [param.empty for param in inspect.signature(old).parameters.values()]
    try:
        inspect.signature(new).bind(*asked)
    except TypeError:
        return False
    return True


def is_number(field: str, value: object) -> bool:
    """True for a field with a number or a text that affects decisions."""
    described = field in DESCRIPTION_FIELDS or field.rpartition(".")[2] in DESCRIPTION_FIELDS
    return not (described or callable(value) or is_table(value) or isinstance(value, Mapping | frozenset))


def with_changes(profile: str, changes: Sequence[RuleVariant]) -> RuleSet:
    """Return the profile's rules with these changes."""
    return exchanged(rules_of(profile), changes)


def exchanged(rules: T, changes: Iterable[RuleVariant]) -> T:
    """Return a rule set with these changes."""
    for one in changes:
        rules = rules.mixed(rules_of(one.profile), [one.field])       # type: ignore[arg-type]
    return rules


def agrees(rule: RuleFunction, args: Any, names: Any, decision: Any) -> bool:
    """True if another rule makes the decision ``decision``."""
    try:
        return is_same_answer(decision, rule(*args, **names))
    except Exception:                   # a rule that fails on these arguments decides differently
        return False


class AskedRules:
    """A rule set that decides like ``rules`` and records which rules a run asks. ``request``: the request of the next
    question, ``START`` at first. ``times``: number of the latest question of each field, and its request. ``matter``:
    the latest question that each variant, by its number, answers otherwise, and ``first``: the request of the first
    one; a rule that returns no ``Decision`` may change its arguments, so that all variants of it count as different."""

    def __init__(self, rules: RuleSet, known: Sequence[RuleVariant]) -> None:
        self.request, self.count = START, 0
        self.times: dict[str, tuple[int, int]] = {}
        self.matter: dict[int, tuple[int, int]] = {}
        self.first: dict[int, int] = {}
        others: dict[str, dict[int, RuleFunction]] = {}
        tables = {name: rules_of(name).fields() for name in {one.profile for one in known}}
        for i, one in enumerate(known):
            new = tables[one.profile][one.field]
            if callable(new):
                others.setdefault(one.field, {})[i] = new
            else:                       # a number is not asked, it is always there
                self._differs(i, (0, START))
        self.rules = rules.changed({field: self._spy(field, rule, others.get(field, {}))
                                    for field, rule in graded_rules(rules).items()})  # fmt: skip

    def _differs(self, variant: int, now: tuple[int, int]) -> None:
        self.matter[variant] = now
        self.first.setdefault(variant, now[1])

    def _spy(self, field: str, rule: RuleFunction, others: Mapping[int, RuleFunction]) -> RuleFunction:
        decides = hasattr(rule, "__wrapped__")

        @wraps(rule)
        def spy(*args: Any, **names: Any) -> Any:
            self.count += 1
            now = self.times[field] = self.count, self.request
            if not decides:
                for i in others:
                    self._differs(i, now)
                return rule(*args, **names)
            said = rule(*args, **names)
            for i, other in others.items():
                if not agrees(other, args, names, said):
                    self._differs(i, now)
            return said

        return spy
