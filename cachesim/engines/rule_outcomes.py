"""Outcomes of rules, and the alternative answers that a rule could have given.

An outcome is a rule and a case: the kind of situation and answer. ``report_outcomes`` reports the outcomes of a run,
``replace_outcome`` returns a rule set in which an outcome has another answer. Both wrap the rules of a table, so the
engine's drivers are unchanged.
"""

from __future__ import annotations

import copy
from functools import wraps
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from cachesim.engines.rule import NUMBERED, Decision, about
from cachesim.engines.shared.rule_set import RuleSet

T = TypeVar("T", bound=RuleSet)
LONGEST = 24             # longest text that is a case by itself [characters]; a longer text is "some"
NEGATED = "the opposite"
_TRUTH_VALUE = (bool, np.bool_)
_NEGATABLE = (*_TRUTH_VALUE, np.ndarray)


class Outcome(NamedTuple):
    """A rule id and a case of the rule."""

    rule: str
    case: str


OutcomeObserver = Callable[[Outcome, Mapping[str, Any]], None]
"""Receives an outcome and the alternative answers by name."""

OutcomeFilter = Callable[[Outcome, Sequence[str], bool], Collection[str] | None]
"""Returns the ids of the other rules whose answers an observer needs beside an outcome, None if it needs no alternative
of this outcome. Receives the ids of the other rules in the field, and whether the answer is a truth value, whose
opposite is an alternative. Called once for each outcome."""


def case_of(decision: object) -> str:
    """Return the case that a rule named, else a case derived from its answer: "yes" or "no" for a truth value, "none"
    or "some" for a number, an index or a list, the text itself for a short text; for a record its truth values and
    texts."""
    if isinstance(decision, Decision):
        return decision.case or _case(decision.value)
    return _case(decision)


def _case(value: Any) -> str:
    if isinstance(value, _TRUTH_VALUE):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if 0 < len(value) <= LONGEST else "some" if value else "none"
    if isinstance(value, np.ndarray):
        return "some" if value.any() else "none"
    if isinstance(value, tuple) and any(isinstance(part, bool | str) for part in value):
        return " ".join(_case(part) for part in value if isinstance(part, bool | str))
    if isinstance(value, tuple | list):
        return "some" if any(part is not None for part in value) else "none"
    return "none" if value is None or (isinstance(value, int | float) and not value) else "some"


def is_same_answer(a: Any, b: Any) -> bool:
    """True if two answers of rules are equal, types included. Records that contain NaN are compared by their
    text."""
    a = getattr(a, "value", a)
    b = getattr(b, "value", b)
    if type(a) is not type(b):
        return False
    equal = a == b
    if isinstance(equal, np.ndarray):
        return bool(equal.all())
    return bool(equal) or (isinstance(a, tuple) and repr(a) == repr(b))


def alternatives(fn: Callable[..., Any], answer: Any, variants: Iterable[Callable[..., Any]],
                 args: Any) -> dict[str, Any]:
    """Return the other admissible answers by name: the opposite of a truth value; the answers of the ``variants``
    (rules of other rule sets in this field) to the same arguments; if none of them differs, the neighbouring values."""
    value = getattr(answer, "value", answer)
    found: dict[str, Any] = {}
    for variant in variants:
        try:
            given = variant(*(args if isinstance(answer, Decision) else map(_own, args)))
            varied = getattr(given, "value", given)
            if not is_same_answer(value, varied) and not _both_decline(value, varied):
                found[about(variant).id] = varied
        except Exception:               # not applicable to these arguments
            continue
    if isinstance(value, _TRUTH_VALUE):
        return {NEGATED: not value, **found}
    return found or neighbours(value, about(fn).role in NUMBERED)


def _own(value: Any) -> Any:
    """Return a copy of an argument for a rule that may modify it, as one without a Decision may. Tuples hold tokens."""
    return value if type(value) is tuple else copy.deepcopy(value)


def _both_decline(a: Any, b: Any) -> bool:
    """True if two records both decline; their other fields have no meaning then."""
    return hasattr(type(a), "_fields") and type(a) is type(b) and not a and not b and _case(a) == _case(b)


def neighbours(value: Any, numbered: bool = False) -> dict[str, Any]:
    """Return the answers next to a value that is not a truth value, by name. ``numbered``: the value is an object
    number or None."""
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
    """Return variants of a record with a field replaced; for a record that declines, only truth values."""
    found: dict[str, Any] = {}
    for name, part in value._asdict().items():
        plain = isinstance(part, int | str) and bool(value)
        others = {NEGATED: not part} if isinstance(part, bool) else neighbours(part) if plain else {}
        found |= {f"{name} {what}": value._replace(**{name: changed}) for what, changed in others.items()}
    return found


Variants = Mapping[str, list[Callable[..., Any]]]
"""Field -> rules that any rule set has in this field."""


def variants_of(tables: Iterable[RuleSet]) -> dict[str, list[Callable[..., Any]]]:
    """Return the rules of these rule sets by field."""
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    latest: dict[str, Callable[..., Any]] = {}           # neighbours share most of their rules
    for rules in tables:
        for field, fn in graded_rules(rules).items():
            if latest.get(field) is not fn:
                latest[field] = fn
                found.setdefault(field, {}).setdefault(about(fn).id, fn)
    return {field: list(rules.values()) for field, rules in found.items()}


def graded_rules(rules: RuleSet) -> Mapping[str, Callable[..., Any]]:
    """Return the rules of a rule set by field, including those of its inner tables."""
    return rules.rules_by_field


def _every(outcome: Outcome, others: Sequence[str], is_truth_value: bool) -> Collection[str] | None:
    """Return all: the observer needs the alternatives of every outcome."""
    return others


def report_outcomes(rules: T, variants: Variants, observer: OutcomeObserver, needs: OutcomeFilter = _every) -> T:
    """Return a rule set that decides like ``rules`` and reports every outcome to the observer, with the alternatives
    that it ``needs``."""
    return rules.changed({
        field: _reporting(fn, variants.get(field, []), observer, needs) for field, fn in graded_rules(rules).items()
    })


def _reporting(fn: Callable[..., Any], variants: list[Callable[..., Any]], observer: OutcomeObserver,
               needs: OutcomeFilter) -> Callable[..., Any]:  # fmt: skip
    name = about(fn).id
    others = [variant for variant in variants if about(variant).id != name]
    ids = tuple(about(variant).id for variant in others)
    known: dict[tuple[str, bool], tuple[Outcome, list[Callable[..., Any]] | None]] = {}

    def asked_beside(outcome: Outcome, is_truth_value: bool) -> list[Callable[..., Any]] | None:
        """Return the rules that are asked beside this outcome, None = its alternatives are not needed."""
        needed = needs(outcome, ids, is_truth_value)
        return None if needed is None else [variant for variant in others if about(variant).id in needed]

    @wraps(fn)
    def reported(*args: Any) -> Any:
        answer = fn(*args)
        key = case_of(answer), isinstance(getattr(answer, "value", answer), _NEGATABLE)
        if key not in known:
            outcome = Outcome(name, key[0])
            known[key] = outcome, asked_beside(outcome, key[1])
        outcome, beside = known[key]
        observer(outcome, {} if beside is None else alternatives(fn, answer, beside, args))
        return answer

    return reported


class TooManyDecisions(BaseException):
    """Raised when a run exceeds its number of decisions. Derives from BaseException, so that no driver handles it as a
    server error."""


class DecisionLimiter:
    """Limits the decisions of runs, one after the other. Each rule is wrapped once: a search runs rule sets that share
    most of their rules."""

    def __init__(self) -> None:
        self.most = 0
        self.numbers = [0]                # of decisions in the present run
        self._bounded: dict[Callable[..., Any], Callable[..., Any]] = {}

    def limit(self, rules: T, most: int) -> T:
        """Return a rule set that decides like ``rules`` and raises TooManyDecisions after ``most`` decisions. It is
        valid up to the next call of this method."""
        self.most = most
        self.numbers[0] = 0
        return rules.changed({field: self._limited(fn) for field, fn in graded_rules(rules).items()})

    def _limited(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        known = self._bounded.get(fn)
        if known is not None:
            return known
        numbers = self.numbers

        def bounded(*args: Any) -> Any:
            numbers[0] += 1
            if numbers[0] > self.most:
                raise TooManyDecisions(f"more than {self.most} decisions")
            return fn(*args)

        # ``functools.wraps`` takes longer.
        vars(bounded).update(vars(fn), __wrapped__=fn)
        self._bounded[fn] = bounded
        return bounded


def limit_decisions(rules: T, most: int) -> T:
    """Return a rule set that decides like ``rules`` and raises TooManyDecisions after ``most`` decisions."""
    return DecisionLimiter().limit(rules, most)


def replace_outcome(rules: T, variants: Variants, outcome: Outcome, answer: str) -> T:
    """Return a rule set in which this outcome gets the alternative answer with the name ``answer`` wherever it is
    admissible."""
    return rules.changed({field: _replacing(fn, variants.get(field, []), outcome.case, answer)
                          for field, fn in graded_rules(rules).items() if about(fn).id == outcome.rule})  # fmt: skip


def _replacing(fn: Callable[..., Any], variants: list[Callable[..., Any]], case: str, name: str) -> Callable[..., Any]:
    named = [variant for variant in variants if about(variant).id == name]
    others = named or [variant for variant in variants if about(variant).id != about(fn).id]

    @wraps(fn)
    def replaced(*args: Any) -> Any:
        answer = fn(*args)
        if case_of(answer) != case:
            return answer
        simple = name == NEGATED and isinstance(getattr(answer, "value", answer), bool)
        found = alternatives(fn, answer, [] if simple else others, args)
        if name not in found:
            return answer
        value = found[name]
        return Decision(value, answer.because, answer.rule) if isinstance(answer, Decision) else value

    return replaced
