"""Failures grouped by what cures them: as few changes as cure all that any single change cures.

A change that makes a right conversation fail, or that costs more than ``DEAR``, is taken only where no other cures; of
the others the one that cures most comes first, and of equals the cheapest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.judging.compare_answer import Judge
from cachesim.judging.failure_chain import explained
from cachesim.scenarios.notation.shrink import shrink
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_case
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import SIMULATOR
from cachesim.tools.search.rule_mutations import (
    CureTrial,
    MutationRun,
    MutationSearch,
    Price,
    Told,
    Variant,
    hear,
    priced,
    share,
)

DEAR = 0.02            # share of tokens that a change may cost any kind of model before another is preferred


class Group(NamedTuple):
    """Conversations that fail for want of one change, by its number. ``others``: how many another change cures too."""

    change: int
    cured: tuple[CureTrial, ...]
    others: tuple[tuple[int, int], ...]


@dataclass
class Repair:
    """Everything that is known of a rule set's failures. ``known``: changes that were tried; ``heard``: conversations
    under the rule set, those of files first; where there are ``files``, the others only tell what a change costs;
    ``tried``: those that fail, and what cures each;
    ``prices`` of what cures something; ``together``: the price of the chosen changes at once, with which ``held`` of
    the failing ones hold; ``small``: smallest cases of the groups and of ``uncured``, in this order."""

    search: MutationSearch
    seed: int
    files: int
    known: tuple[Variant, ...]
    heard: list[MutationRun]
    tried: list[CureTrial] = field(default_factory=list)
    prices: dict[int, Price] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    together: Price | None = None
    held: int = 0
    small: list[DrawnConversation | None] = field(default_factory=list)

    @property
    def asked(self) -> list[MutationRun]:
        """The conversations whose failures are to be cured."""
        return self.heard[: self.files or None]

    @property
    def failing(self) -> list[MutationRun]:
        return [one for one in self.asked if one.found]

    @property
    def right(self) -> list[MutationRun]:
        return [one for one in self.heard if one.found == ()]

    def touched(self, changes: Sequence[int]) -> list[Told]:
        """Right conversations for which one of these changes matters."""
        return [one.told for one in self.right if not one.matter.isdisjoint(changes)]

    def price(self, again: Sequence[MutationRun]) -> Price:
        """What changes cost, from the conversations that they touch, played with them; all others are as they were."""
        with_them = {name_of(one): one for one in again}
        return priced(self.right, [with_them.get(name_of(one), one) for one in self.right])

    @property
    def uncured(self) -> list[CureTrial]:
        """Failures that no single change cures."""
        return [one for one in self.tried if not one.cures]

    @property
    def crashed(self) -> bool:
        """Did the simulator itself fail?"""
        return any(finding.name == SIMULATOR for one in self.failing for finding in one.found or ())


def groups(tried: Sequence[CureTrial], prices: Mapping[int, Price]) -> Iterator[Group]:
    """The failures that single changes cure, each in one group."""
    left = [one for one in tried if one.cures]
    while left:
        counts = {i: sum(i in one.cures for one in left) for i in {i for one in left for i in one.cures}}
        best = min(counts, key=lambda i: (*_faults(prices[i]), -counts[i], prices[i].share, i))
        cured = [one for one in left if best in one.cures]
        others = {i: sum(i in one.cures for one in cured) for i in counts if i != best}
        met = [(i, n) for i, n in others.items() if n]
        yield Group(best, tuple(cured), tuple(sorted(met, key=lambda at: (-at[1], *_faults(prices[at[0]]), at[0]))))
        left = [one for one in left if best not in one.cures]


def _faults(price: Price) -> tuple[bool, bool]:
    return price.broken > 0, price.worst > DEAR


def numbers(seed: int, examples: int) -> range:
    """The first conversations of a seed."""
    return range(seed * SPREAD, seed * SPREAD + examples)


class RepairShrink(NamedTuple):
    """The work of a process: a conversation that fails and holds with a change (None: that fails), to be made small."""

    search: MutationSearch
    told: Told
    change: Variant | None
    tries: int = 600


def smallest(job: RepairShrink) -> DrawnConversation | None:
    """The smallest case that fails as this one, and holds with the change; None for a scenario of a file: it stays."""
    if not isinstance(job.told, int):
        return None
    search, judges = job.search, dict[str, Judge]()
    case = draw_case(job.told, search.profile.partition("@")[0], search.models)
    names = {one.name for one in hear(job.told, search, judges).found or ()} & PROPERTIES.keys()
    if not names:
        return case
    wanted = search._replace(properties=tuple(names))

    def fails(case: DrawnConversation) -> bool:
        try:
            scenario = case.scenario(search.profile)
        except BadInput:
            return False
        if not hear(scenario, wanted, judges).found:
            return False
        return job.change is None or hear(scenario, search, judges, [job.change]).found == ()

    return shrink(case, fails, job.tries, case.seed) if fails(case) else case


def name_of(heard: MutationRun) -> str:
    """A conversation as it is called: its number in its seed, or the id of its file."""
    return str(heard.told % SPREAD) if isinstance(heard.told, int) else heard.told.id


# Everything that is known, as data: for JSON and for the eye.

Data = dict[str, Any]


def repair_data(found: Repair) -> Data:
    """Everything about a repair, for JSON and for the eye."""
    cases = iter(found.small or [None] * (len(found.groups) + len(found.uncured)))
    profile, known = found.search.profile, found.known
    return {
        "profile": profile, "seed": found.seed, "properties": list(found.search.properties),
        "files": found.files, "examples": len(found.asked), "right": len(found.right),
        "undecided": sum(one.found is None for one in found.asked),
        "failing": len(found.failing), "tried": len(known),
        "groups": [
            {
                **known[one.change]._asdict(), "failures": len(one.cured), **_price(found.prices[one.change]),
                **_example(one.cured[0], next(cases), profile), "findings": _findings(one.cured),
                "conversations": [name_of(tried.heard) for tried in one.cured],
                "others": [{**known[i]._asdict(), "cures": n, **_price(found.prices[i])} for i, n in one.others],
            }
            for one in found.groups
        ],
        "uncured": [_uncured(one, next(cases), profile, known) for one in found.uncured],
        "together": None if found.together is None else {"held": found.held, **_price(found.together)},
    }  # fmt: skip


def with_failures(data: Data) -> Data:
    """The data of a repair in which the example of each cause, and what is uncured, is ``explained``."""
    groups = [explained(one, data["profile"], -1, one["findings"][0]["property"]) for one in data["groups"]]
    uncured = [explained(one, data["profile"], -1, one["text"]) for one in data["uncured"]]
    return {**data, "groups": groups, "uncured": uncured}


def _price(price: Price) -> Data:
    kinds = {kind: {"before": was, "after": price.after[kind], "cost": share(was, price.after[kind])}
             for kind, was in sorted(price.before.items())}  # fmt: skip
    return {"cost": price.share, "broken": price.broken, "kinds": kinds}


def _example(tried: CureTrial, case: DrawnConversation | None, profile: str) -> Data:
    return {"conversation": name_of(tried.heard), **({} if case is None else case.typed(profile))}


def _findings(tried: tuple[CureTrial, ...]) -> list[Data]:
    """What was found in these conversations first of all, most often met first."""
    first = [(one.heard.found or ())[0] for one in tried]
    counts = Counter((finding.name, finding.label) for finding in first)
    return [{"property": name, "rule": rule, "times": n} for (name, rule), n in counts.most_common()]


def _uncured(one: CureTrial, case: DrawnConversation | None, profile: str, known: tuple[Variant, ...]) -> Data:
    first = (one.heard.found or ())[0]
    pairs = [[known[i]._asdict(), known[k]._asdict()] for i, k in one.pairs]
    said = {"property": first.name, "rule": first.label, "text": first.text}
    return {**_example(one, case, profile), **said, "pairs": pairs}
