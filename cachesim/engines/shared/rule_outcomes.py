"""Outcomes of rules, and what a rule could have answered instead.

An outcome is a rule and a case: what the rule answered in one kind of situation. ``listening`` reports the outcomes of
a run, ``replacing`` gives a rule set in which one of them is another. Both wrap the rules of a table, so that the
drivers are those of the engine.
"""

from __future__ import annotations

import copy
from functools import wraps
from itertools import count
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, TypeVar

import numpy as np

from cachesim.engines.rule import NUMBERED, Decision, about
from cachesim.engines.shared.rule_set import RuleSet

T = TypeVar("T", bound=RuleSet)
LONGEST = 24             # letters of a text that is a case by itself; a longer one is "some"
NEGATED = "the opposite"


class Outcome(NamedTuple):
    """A rule and a case of it."""

    rule: str
    case: str


OutcomeObserver = Callable[[Outcome, Mapping[str, Any]], None]
"""Receives an outcome and the answers that could have been given instead, by name."""


def case_of(decision: object) -> str:
    """The case that a rule named, else one made from its answer: "yes" and "no" for a truth value, "none" and "some"
    for a number, an index or a list, a short text as it is; of a record its truth values and texts."""
    if isinstance(decision, Decision):
        return decision.case or _case(decision.value)
    return _case(decision)


def _case(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if 0 < len(value) <= LONGEST else "some" if value else "none"
    if isinstance(value, np.ndarray):
        return "some" if value.any() else "none"
    if isinstance(value, tuple) and any(isinstance(one, bool | str) for one in value):
        return " ".join(_case(one) for one in value if isinstance(one, bool | str))
    if isinstance(value, tuple | list):
        return "some" if any(one is not None for one in value) else "none"
    return "none" if value is None or (isinstance(value, int | float) and not value) else "some"


def is_same_answer(a: Any, b: Any) -> bool:
    """True if two answers of rules are equal, their types included; a record with numbers that are not numbers, too."""
    a, b = (getattr(one, "value", one) for one in (a, b))
    return type(a) is type(b) and (bool(np.all(a == b)) or (isinstance(a, tuple) and repr(a) == repr(b)))


def alternatives(fn: Callable[..., Any], answer: Any, variants: Iterable[Callable[..., Any]],
                 args: Any) -> dict[str, Any]:
    """The other admissible answers, by name: the opposite of a truth value; what each of the ``variants`` (rules of
    other rule sets in the same place) answers to the same arguments; where none of them differs, a neighbour."""
    value = getattr(answer, "value", answer)
    found: dict[str, Any] = {}
    for other in variants:
        try:                            # what returns a plain value may be given the object that it is asked about
            given = other(*(args if isinstance(answer, Decision) else copy.deepcopy(args)))
            theirs = getattr(given, "value", given)
            if not is_same_answer(value, theirs) and not _both_decline(value, theirs):
                found[about(other).id] = theirs
        except Exception:               # it cannot be asked this: no answer of its own
            continue
    if isinstance(value, bool | np.bool_):
        return {NEGATED: not value, **found}
    return found or neighbours(value, about(fn).role in NUMBERED)


def _both_decline(a: Any, b: Any) -> bool:
    """True for two records that stand for no: their other fields mean nothing then."""
    return hasattr(type(a), "_fields") and type(a) is type(b) and not a and not b and _case(a) == _case(b)


def neighbours(value: Any, numbered: bool = False) -> dict[str, Any]:
    """Answers next to one that is no truth value, by name. ``numbered``: it is the number of an object, or None."""
    if numbered and value is None:
        return {"the first": 0}
    if isinstance(value, int):
        return {"one more": value + 1, **({"one less": value - 1} if value > 0 else {}),
                **({"none": None} if numbered else {})}  # fmt: skip
    if isinstance(value, str):
        return {"none": ""} if value else {}
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return {NEGATED: ~value}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _with_another_field(value)
    if isinstance(value, tuple):
        return {"none": ()} if value else {"the first": (0,)}
    return {}


def _with_another_field(value: Any) -> dict[str, Any]:
    """A record with one of its fields replaced; of one that stands for no, only truth values."""
    found: dict[str, Any] = {}
    for name, one in value._asdict().items():
        plain = isinstance(one, int | str) and bool(value)
        others = {NEGATED: not one} if isinstance(one, bool) else neighbours(one) if plain else {}
        found |= {f"{name} {what}": value._replace(**{name: other}) for what, other in others.items()}
    return found


Variants = Mapping[str, list[Callable[..., Any]]]
"""The rules that some rule set has in a field, by field."""


def variants_of(tables: Iterable[RuleSet]) -> dict[str, list[Callable[..., Any]]]:
    """Every rule of these rule sets by the fields that it stands in."""
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for rules in tables:
        for field, fn in graded_rules(rules).items():
            found.setdefault(field, {}).setdefault(about(fn).id, fn)
    return {field: list(rules.values()) for field, rules in found.items()}


def graded_rules(rules: RuleSet) -> dict[str, Callable[..., Any]]:
    """The rules of a rule set by field, those of its inner tables too."""
    return {field: fn for field, fn in rules.fields().items() if callable(fn) and hasattr(fn, "about")}


def report_outcomes(rules: T, variants: Variants, hear: OutcomeObserver) -> T:
    """A rule set that decides like this one and reports every outcome."""
    return rules.changed({field: _listening(fn, variants.get(field, []), hear)
                          for field, fn in graded_rules(rules).items()})  # fmt: skip


def _listening(fn: Callable[..., Any], variants: list[Callable[..., Any]], hear: OutcomeObserver) -> Callable[..., Any]:
    name = about(fn).id
    others = [other for other in variants if about(other).id != name]

    @wraps(fn)
    def asked(*args: Any) -> Any:
        answer = fn(*args)
        hear(Outcome(name, case_of(answer)), alternatives(fn, answer, others, args))
        return answer

    return asked


class TooManyDecisions(BaseException):
    """Raised when a run asks more often than it may. It derives from BaseException, so that no driver takes it for an
    error of its server."""


def limit_decisions(rules: T, most: int) -> T:
    """A rule set that decides like this one, and raises TooManyDecisions when it is asked more than ``most`` times."""
    asked = count(1)
    return rules.changed({field: _ending(fn, asked, most) for field, fn in graded_rules(rules).items()})


def _ending(fn: Callable[..., Any], asked: Iterator[int], most: int) -> Callable[..., Any]:
    @wraps(fn)
    def bounded(*args: Any) -> Any:
        if next(asked) > most:
            raise TooManyDecisions(f"more than {most} decisions")
        return fn(*args)

    return bounded


def replace_outcome(rules: T, variants: Variants, outcome: Outcome, other: str) -> T:
    """A rule set in which this outcome is the answer of this name wherever there is one."""
    return rules.changed({field: _replacing(fn, variants.get(field, []), outcome.case, other)
                          for field, fn in graded_rules(rules).items() if about(fn).id == outcome.rule})  # fmt: skip


def _replacing(fn: Callable[..., Any], variants: list[Callable[..., Any]], case: str, other: str) -> Callable[..., Any]:
    named = [one for one in variants if about(one).id == other]
    others = named or [one for one in variants if about(one).id != about(fn).id]

    @wraps(fn)
    def replaced(*args: Any) -> Any:
        answer = fn(*args)
        if case_of(answer) != case:
            return answer
        simple = other == NEGATED and isinstance(getattr(answer, "value", answer), bool)
        found = alternatives(fn, answer, [] if simple else others, args)
        if other not in found:
            return answer
        return Decision(found[other], answer.because, answer.rule) if isinstance(answer, Decision) else found[other]

    return replaced
