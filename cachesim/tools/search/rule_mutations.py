"""Which change of one rule makes a conversation hold that fails? Proved: it is played again with that rule changed.

variant   one rule of another rule set of the engine, in the place of the rule that fits the same field
cured     nothing is found any more in the whole conversation
price     tokens of prompts that are evaluated in conversations that were right without the change, with it

Rules are pure: a change that would have decided everything as it was decided changes nothing, and is not played.
"""

from __future__ import annotations

from collections import Counter
from functools import wraps
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import Unwritable
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.rule_outcomes import is_same_answer
from cachesim.engines.shared.rule_set import LOG_FIELDS, RuleSet
from cachesim.judging.compare_answer import Judge
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.campaign import rarely_collected
from cachesim.tools.search.drawn_conversation import KINDS, draw_case
from cachesim.tools.search.invariant_observer import played
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import failed, tokens

Told = int | Scenario
"""A conversation: the integer that it is drawn from, or a scenario."""
Others = Mapping[str, Mapping[int, Any]]
"""Rules that could take another's place, by field and by the number of the variant."""
NONE: Others = {}
PAIRS = 400                    # pairs of changes that are tried on one conversation


class Variant(NamedTuple):
    """One rule that could be another: the table's field, the ids of both rules, and a rule set that has the new one."""

    field: str
    old: str
    new: str
    profile: str


class MutationSearch(NamedTuple):
    """What is looked for: these properties under this profile; ``models`` narrows what is drawn."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...] = ()


class MutationRun(NamedTuple):
    """A conversation that was played. ``evaluated``: tokens of prompts; ``kind``: of its model. ``found`` None = it
    could not be played, or its outcome depends on a number that nobody wrote. ``matter``: the changes, by number, that
    would have decided something otherwise."""

    told: Told
    kind: str
    evaluated: int
    found: tuple[PropertyFailure, ...] | None
    matter: frozenset[int] = frozenset()


class CureTrial(NamedTuple):
    """A conversation that fails, and what cures it: single changes by number, else pairs of them. ``part`` are single
    changes with which the first thing that is found comes later."""

    heard: MutationRun
    cures: frozenset[int]
    part: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


class Price(NamedTuple):
    """What some changes do to conversations that were right without them: tokens evaluated before and after by kind of
    model, and how many fail."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    broken: int

    @property
    def share(self) -> float:
        """How much more is evaluated, as a share of what was."""
        return share(sum(self.before.values()), sum(self.after.values()))

    @property
    def worst(self) -> float:
        """The same for the kind of model that pays most."""
        return max((share(was, self.after[kind]) for kind, was in self.before.items()), default=0.0)


def share(was: int, now: int) -> float:
    """How much more it is now, as a share of what it was."""
    return (now - was) / was if was else 0.0


def variants(profile: str) -> list[Variant]:
    """Every change of one rule that the rule sets of the engine know, in their order and in that of the table. What
    only changes the log is left out."""
    engine = engine_of(profile)
    mine = engine.rules(profile).fields()
    found: dict[tuple[str, str], Variant] = {}
    for name, rules in engine.profiles.items():
        for field, rule in rules.fields().items():
            old = mine.get(field)
            if field in LOG_FIELDS or not (hasattr(rule, "rule") and hasattr(old, "rule")) or rule is old:
                continue
            found.setdefault((field, rule.rule), Variant(field, old.rule, rule.rule, name))
    return list(found.values())


def with_changes(profile: str, changes: Sequence[Variant]) -> RuleSet:
    """The profile's rules with these changes."""
    rules = rules_of(profile)
    for one in changes:
        rules = rules.mixed(rules_of(one.profile), [one.field])
    return rules


def scenario_of(told: Told, search: MutationSearch) -> Scenario:
    """The conversation as a scenario. Raises BadInput."""
    if isinstance(told, Scenario):
        return told
    return draw_case(told, search.profile.partition("@")[0], search.models).scenario(search.profile)


class Spies:
    """The profile's rules, each of which asks what could take its place whenever it is asked itself. ``matter``:
    variants, by number, that decided otherwise."""

    def __init__(self, profile: str, others: Others) -> None:
        self.matter: set[int] = set()
        mine = rules_of(profile).fields()
        spies = {field: self._spy(mine[field], dict(rules)) for field, rules in others.items()}
        self.rules = rules_of(profile).changed(spies)

    def _spy(self, rule: Any, others: dict[int, Any]) -> Callable[..., Any]:
        @wraps(rule)
        def spy(*args: Any, **names: Any) -> Any:
            said = rule(*args, **names)
            for i, other in list(others.items()):
                if not _says(other, args, names, said):
                    self.matter.add(i)
                    del others[i]
            return said

        return spy


def others_of(known: Sequence[Variant]) -> Others:
    """The new rules of variants by field and number."""
    tables = {name: rules_of(name).fields() for name in {one.profile for one in known}}
    found: dict[str, dict[int, Any]] = {}
    for i, one in enumerate(known):
        found.setdefault(one.field, {})[i] = tables[one.profile][one.field]
    return found


def _says(other: Any, args: Any, names: Any, said: Any) -> bool:
    """Does another rule decide the same?"""
    try:
        return is_same_answer(said, other(*args, **names))
    except Exception:                   # it cannot even be asked this: that is something else
        return False


def hear(
    told: Told, search: MutationSearch, judges: dict[str, Judge], changes: Sequence[Variant] = (),
    others: Others = NONE,
) -> MutationRun:
    """Play a conversation under the profile with these changes; or without any, and find out which of the ``others``
    matter. Raises Unwritable."""
    kind, found, evaluated = "?", None, 0
    spies = Spies(search.profile, others)
    try:
        scenario = scenario_of(told, search)
        kind = kind_of_model(scenario.model)
        table = with_changes(search.profile, changes) if changes else spies.rules
        one = played(scenario, search.profile, judges, table)
        if not one.unset:
            found = tuple(finding for name in search.properties for finding in PROPERTIES[name](one))
        evaluated = sum(tokens(fact) for fact in one.facts)
    except Unwritable:
        raise
    except Exception as error:          # the simulator or a rule of the user fails at it: that is found too
        found = None if (what := failed(error)) is None else (what,)
    return MutationRun(told, kind, evaluated, found, frozenset(spies.matter))


def kind_of_model(model: str) -> str:
    """The class of a model that is drawn; the name of any other."""
    return next((kind for kind, models in KINDS.items() if model in models), model)


class Hearing(NamedTuple):
    """The work of a process: conversations to be played, with these changes, or to see which ``known`` ones matter."""

    search: MutationSearch
    told: tuple[Told, ...]
    changes: tuple[Variant, ...] = ()
    known: tuple[Variant, ...] = ()


@rarely_collected()
def hear_all(job: Hearing) -> list[MutationRun]:
    """Play every conversation of a job."""
    judges: dict[str, Judge] = {}
    others = others_of(job.known)
    return [hear(told, job.search, judges, job.changes, others) for told in job.told]


class Trying(NamedTuple):
    """The work of a process: a conversation that fails, and the changes to try."""

    search: MutationSearch
    heard: MutationRun
    known: tuple[Variant, ...]


@rarely_collected()
def try_all(job: Trying) -> CureTrial:
    """Every single change on one conversation; where none cures it, pairs, those first of which one helps alone."""
    search, heard, known = job.search, job.heard, job.known
    judges: dict[str, Judge] = {}
    first = _first(heard.found or ())
    left = {i: hear(heard.told, search, judges, [known[i]]).found for i in sorted(heard.matter)}
    cures = frozenset(i for i, found in left.items() if found == ())
    if cures:
        return CureTrial(heard, cures)
    part = tuple(i for i, found in left.items() if found and _first(found) > first)
    pairs = [(i, k) for i in part for k in range(len(known)) if k != i and known[k].field != known[i].field]
    done = dict.fromkeys(tuple(sorted(pair)) for pair in pairs)
    good = [(i, k) for i, k in list(done)[:PAIRS]
            if hear(heard.told, search, judges, [known[i], known[k]]).found == ()]
    return CureTrial(heard, cures, part, tuple(good))


def _first(found: Sequence[PropertyFailure]) -> int:
    return min((one.step for one in found), default=-1)


def priced(before: Sequence[MutationRun], after: Sequence[MutationRun]) -> Price:
    """What changes cost, from the same right conversations without them and with them."""
    was, now = Counter[str](), Counter[str]()
    for a, b in zip(before, after, strict=True):
        was[a.kind] += a.evaluated
        now[a.kind] += b.evaluated
    return Price(was, now, sum(bool(one.found) for one in after))
