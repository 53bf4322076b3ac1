"""Failures grouped by what cures them: as few changes as cure all that any single change cures.

A change that makes a right conversation fail, or that costs more than ``DEAR``, is taken only where no other cures; of
the others the one that cures most comes first, and of equals the cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.judging.cold_comparison import Judge
from cachesim.scenarios.notation.shrink import shrink
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.case import DrawnConversation, draw_case
from cachesim.tools.search.cures import CureTrial, MutationRun, MutationSearch, Price, Told, Variant, hear, priced
from cachesim.tools.search.finding import SIMULATOR
from cachesim.tools.search.properties import PROPERTIES

DEAR = 0.02            # share of tokens that a change may cost any kind of model before another is preferred


class Group(NamedTuple):
    """Conversations that fail for want of one change, by its number. ``others``: changes that cure some of them too,
    and how many."""

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
        ranked = sorted(
            ((i, n) for i, n in others.items() if n), key=lambda at: (-at[1], *_faults(prices[at[0]]), at[0])
        )
        yield Group(best, tuple(cured), tuple(ranked))
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
    """The smallest case that fails as this one, and holds with the change; None for a scenario of a file, which stays
    as it is."""
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
