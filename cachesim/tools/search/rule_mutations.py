"""Rule mutations that cure a failing conversation. Each is verified by running the conversation with the changed rule.

variant   a rule of another rule set of the engine, in place of the rule in the same field
cured     the whole conversation has no finding any more
price     additional prompt tokens evaluated in conversations that were correct without the change

Rules are pure. A variant whose decisions all agree with the recorded decisions changes nothing and is skipped.
"""

from __future__ import annotations

from collections import Counter
from functools import wraps
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import Unwritable
from cachesim.base.garbage_collection import with_rare_garbage_collection
from cachesim.engines.registry import rules_of
from cachesim.judging.compare_answer import Judge
from cachesim.judging.rule_exchange import RuleVariant, agrees, with_changes
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.drawn_conversation import KINDS, draw_conversation
from cachesim.tools.search.invariant_observer import observe_run
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import failed, tokens

ConversationSource = int | Scenario
"""A conversation: the integer that it is drawn from, or a scenario."""
Others = Mapping[str, Mapping[int, Any]]
"""Replacement rules, by field and by number of the variant."""
NONE: Others = {}
PAIRS = 400                    # maximum number of pairs of changes that are tried on a conversation
COUNTED = 8                    # different decisions of a variant that are counted in a run


class MutationSearch(NamedTuple):
    """Search parameters: properties and profile; ``models`` narrows the models that are drawn."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...] = ()


class MutationRun(NamedTuple):
    """Run of a conversation. ``evaluated``: prompt tokens. ``kind``: class of the model. ``found``: findings, None if
    the conversation could not run or its outcome depends on a number that was never written. ``matter``: numbers of the
    variants that decide differently, with the number of these decisions, at most ``COUNTED``."""

    source: ConversationSource
    kind: str
    evaluated: int
    found: tuple[PropertyFailure, ...] | None
    matter: Mapping[int, int] = {}


class CureTrial(NamedTuple):
    """A failing conversation and its cures: numbers of single variants, else pairs of them. ``part``: single variants
    with which the first finding occurs later."""

    run: MutationRun
    cures: frozenset[int]
    part: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


class ChangePrice(NamedTuple):
    """Effect of changes on conversations that are correct without them: evaluated tokens before and after by kind of
    model, and the number of conversations that now fail."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    broken: int

    @property
    def share(self) -> float:
        """Increase of evaluated tokens as a share of the tokens before."""
        return share(sum(self.before.values()), sum(self.after.values()))

    @property
    def worst(self) -> float:
        """Largest increase of any kind of model, as a share of its tokens before."""
        return max((share(was, self.after[kind]) for kind, was in self.before.items()), default=0.0)


def share(was: int, now: int) -> float:
    """Return the increase from ``was`` to ``now`` as a share of ``was``."""
    return (now - was) / was if was else 0.0


def scenario_of(source: ConversationSource, search: MutationSearch) -> Scenario:
    """Return the conversation as a scenario. Raise BadInput if it is not a valid scenario."""
    if isinstance(source, Scenario):
        return source
    return draw_conversation(source, search.profile.partition("@")[0], search.models).scenario(search.profile)


class RuleProbes:
    """The profile's rules, wrapped: each call also asks the variants of the rule. ``matter``: numbers of the variants
    that decided differently, and how often."""

    def __init__(self, profile: str, others: Others) -> None:
        self.matter = Counter[int]()
        mine = rules_of(profile).fields()
        spies = {field: self._spy(mine[field], dict(rules)) for field, rules in others.items()}
        self.rules = rules_of(profile).changed(spies)

    def _spy(self, rule: Any, others: dict[int, Any]) -> Callable[..., Any]:
        @wraps(rule)
        def spy(*args: Any, **names: Any) -> Any:
            said = rule(*args, **names)
            for i, other in list(others.items()):
                if not agrees(other, args, names, said):
                    self.matter[i] += 1
                    if self.matter[i] == COUNTED:
                        del others[i]
            return said

        return spy


def others_of(known: Sequence[RuleVariant]) -> Others:
    """Return the new rules of variants by field and number."""
    tables = {name: rules_of(name).fields() for name in {one.profile for one in known}}
    found: dict[str, dict[int, Any]] = {}
    for i, one in enumerate(known):
        found.setdefault(one.field, {})[i] = tables[one.profile][one.field]
    return found


def run_mutated(
    source: ConversationSource, search: MutationSearch, judges: dict[str, Judge], changes: Sequence[RuleVariant] = (),
    others: Others = NONE,
) -> MutationRun:
    """Run a conversation under the profile with these changes. Without changes, also find the variants in ``others``
    that matter. Raise Unwritable if slot files cannot be written."""
    kind = "?"
    found = None
    evaluated = 0
    spies = RuleProbes(search.profile, others)
    try:
        scenario = scenario_of(source, search)
        kind = kind_of_model(scenario.model)
        table = with_changes(search.profile, changes) if changes else spies.rules
        one = observe_run(scenario, search.profile, judges, table)
        if not one.unset:
            found = tuple(finding for name in search.properties for finding in PROPERTIES[name](one))
        evaluated = sum(tokens(step) for step in one.steps)
    except Unwritable:
        raise
    except Exception as error:          # a failure of the simulator or of a user's rule is a finding
        found = None if (what := failed(error)) is None else (what,)
    return MutationRun(source, kind, evaluated, found, dict(spies.matter))


def kind_of_model(model: str) -> str:
    """Return the class of a model that can be drawn; for any other its name."""
    return next((kind for kind, models in KINDS.items() if model in models), model)


class MutationJob(NamedTuple):
    """Job of a process: conversations to run with ``changes``, or to find the ``known`` variants that matter."""

    search: MutationSearch
    source: tuple[ConversationSource, ...]
    changes: tuple[RuleVariant, ...] = ()
    known: tuple[RuleVariant, ...] = ()


@with_rare_garbage_collection()
def run_mutations(job: MutationJob) -> list[MutationRun]:
    """Run every conversation of a job."""
    judges: dict[str, Judge] = {}
    others = others_of(job.known)
    return [run_mutated(source, job.search, judges, job.changes, others) for source in job.source]


class CureJob(NamedTuple):
    """Job of a process: a failing conversation and the variants to try."""

    search: MutationSearch
    run: MutationRun
    known: tuple[RuleVariant, ...]


@with_rare_garbage_collection()
def find_cures(job: CureJob) -> CureTrial:
    """Try every single variant on a conversation. If none cures it, try pairs that contain a variant that helps
    alone."""
    search = job.search
    run = job.run
    known = job.known
    judges: dict[str, Judge] = {}
    first = _first(run.found or ())
    left = {i: run_mutated(run.source, search, judges, [known[i]]).found for i in sorted(run.matter)}
    cures = frozenset(i for i, found in left.items() if found == ())
    if cures:
        return CureTrial(run, cures)
    part = tuple(i for i, found in left.items() if found and _first(found) > first)
    pairs = [(i, k) for i in part for k in range(len(known)) if k != i and known[k].field != known[i].field]
    done = dict.fromkeys(tuple(sorted(pair)) for pair in pairs)
    good = [(i, k) for i, k in list(done)[:PAIRS]
            if run_mutated(run.source, search, judges, [known[i], known[k]]).found == ()]
    return CureTrial(run, cures, part, tuple(good))


def _first(found: Sequence[PropertyFailure]) -> int:
    return min(one.step for one in found)


def priced(before: Sequence[MutationRun], after: Sequence[MutationRun]) -> ChangePrice:
    """Return the price of changes, from runs of the same correct conversations without and with them."""
    was, now = Counter[str](), Counter[str]()
    for a, b in zip(before, after, strict=True):
        was[a.kind] += a.evaluated
        now[a.kind] += b.evaluated
    return ChangePrice(was, now, sum(bool(one.found) for one in after))
