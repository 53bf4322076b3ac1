"""Selection of few changes that cure all failures which any single change cures, by a greedy set cover.

A change that breaks a correct conversation or costs more than ``DEAR`` is chosen only if no other cures the failure.
Among the others the change that cures most is chosen first; ties go to the cheapest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.judging.compare_answer import Judge
from cachesim.judging.failure_chain import explained
from cachesim.judging.rule_exchange import RuleVariant
from cachesim.scenarios.notation.shrink import shrink
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_conversation
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import SIMULATOR
from cachesim.tools.search.rule_mutations import (
    ChangePrice,
    ConversationSource,
    CureTrial,
    MutationRun,
    MutationSearch,
    priced,
    run_mutated,
    share,
)

DEAR = 0.02            # maximum cost for any kind of model, as a share of tokens; dearer changes are a last resort


class CuredGroup(NamedTuple):
    """Conversations that a change cures, by its number. ``others``: other changes and how many of these they cure."""

    change: int
    cured: tuple[CureTrial, ...]
    others: tuple[tuple[int, int], ...]


@dataclass
class RepairResults:
    """All results of a repair."""

    search: MutationSearch
    seed: int
    files: int                                                          # scenario files; 0: all conversations are drawn
    known: tuple[RuleVariant, ...]                                          # changes that were tried
    runs: list[MutationRun]             # runs without changes, files first; with files, drawn runs are only for prices
    tried: list[CureTrial] = field(default_factory=list)                # failing conversations with their cures
    prices: dict[int, ChangePrice] = field(default_factory=dict)              # of each change that cures something
    groups: list[CuredGroup] = field(default_factory=list)                   # chosen changes
    together: ChangePrice | None = None                                       # price of all chosen changes at once
    held: int = 0                                                       # failing conversations that hold with them
    small: list[DrawnConversation | None] = field(default_factory=list)     # cases of ``groups``, then of ``uncured``

    @property
    def asked(self) -> list[MutationRun]:
        """Conversations whose failures are to be cured."""
        return self.runs[: self.files or None]

    @property
    def failing(self) -> list[MutationRun]:
        return [one for one in self.asked if one.found]

    @property
    def right(self) -> list[MutationRun]:
        return [one for one in self.runs if one.found == ()]

    def touched(self, changes: Sequence[int]) -> list[ConversationSource]:
        """Return the correct conversations for which any of these changes matters."""
        return [one.source for one in self.right if not one.matter.keys().isdisjoint(changes)]

    def price(self, again: Sequence[MutationRun]) -> ChangePrice:
        """Return the price of changes from runs of the affected conversations; all others keep their results."""
        with_them = {name_of(one): one for one in again}
        return priced(self.right, [with_them.get(name_of(one), one) for one in self.right])

    @property
    def uncured(self) -> list[CureTrial]:
        """Failures that no single change cures."""
        return [one for one in self.tried if not one.cures]

    @property
    def has_crashed(self) -> bool:
        """True if the simulator itself failed."""
        return any(finding.name == SIMULATOR for one in self.failing for finding in one.found or ())


def groups(tried: Sequence[CureTrial], prices: Mapping[int, ChangePrice]) -> Iterator[CuredGroup]:
    """Yield the curable failures in groups, each failure once (greedy set cover)."""
    left = [one for one in tried if one.cures]
    while left:
        counts = {i: sum(i in one.cures for one in left) for i in {i for one in left for i in one.cures}}
        best = min(counts, key=lambda i: (*_faults(prices[i]), -counts[i], prices[i].share, i))
        cured = [one for one in left if best in one.cures]
        others = {i: sum(i in one.cures for one in cured) for i in counts if i != best}
        met = [(i, n) for i, n in others.items() if n]
        yield CuredGroup(
            best, tuple(cured), tuple(sorted(met, key=lambda at: (-at[1], *_faults(prices[at[0]]), at[0])))
        )
        left = [one for one in left if best not in one.cures]


def _faults(price: ChangePrice) -> tuple[bool, bool]:
    return price.broken > 0, price.worst > DEAR


def numbers(seed: int, examples: int) -> range:
    """Return the first conversations of a seed."""
    return range(seed * SPREAD, seed * SPREAD + examples)


class RepairShrink(NamedTuple):
    """Job of a process: a failing conversation to shrink. ``change``: a change that cures it, or None."""

    search: MutationSearch
    source: ConversationSource
    change: RuleVariant | None
    tries: int = 600


def smallest(job: RepairShrink) -> DrawnConversation | None:
    """Return the smallest case that fails likewise and holds with the change; None for a scenario from a file."""
    if not isinstance(job.source, int):
        return None
    search, judges = job.search, dict[str, Judge]()
    case = draw_conversation(job.source, search.profile.partition("@")[0], search.models)
    names = {one.name for one in run_mutated(job.source, search, judges).found or ()} & PROPERTIES.keys()
    if not names:
        return case
    wanted = search._replace(properties=tuple(names))

    def fails(case: DrawnConversation) -> bool:
        try:
            scenario = case.scenario(search.profile)
        except BadInput:
            return False
        if not run_mutated(scenario, wanted, judges).found:
            return False
        return job.change is None or run_mutated(scenario, search, judges, [job.change]).found == ()

    return shrink(case, fails, job.tries, case.seed) if fails(case) else case


def name_of(run: MutationRun) -> str:
    """Return the name of a conversation: its number in its seed, or the id of its file."""
    return str(run.source % SPREAD) if isinstance(run.source, int) else run.source.id


# Results as data: for JSON and for the report.

Data = dict[str, Any]


def repair_data(found: RepairResults) -> Data:
    """Return all results of a repair as data."""
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
                "conversations": [name_of(tried.run) for tried in one.cured],
                "others": [{**known[i]._asdict(), "cures": n, **_price(found.prices[i])} for i, n in one.others],
            }
            for one in found.groups
        ],
        "uncured": [_uncured(one, next(cases), profile, known) for one in found.uncured],
        "together": None if found.together is None else {"held": found.held, **_price(found.together)},
    }  # fmt: skip


def with_failures(data: Data) -> Data:
    """Return the data of a repair with the example of each group and each uncured failure ``explained``."""
    groups = [explained(one, data["profile"], -1, one["findings"][0]["property"]) for one in data["groups"]]
    uncured = [explained(one, data["profile"], -1, one["text"]) for one in data["uncured"]]
    return {**data, "groups": groups, "uncured": uncured}


def _price(price: ChangePrice) -> Data:
    kinds = {kind: {"before": was, "after": price.after[kind], "cost": share(was, price.after[kind])}
             for kind, was in sorted(price.before.items())}  # fmt: skip
    return {"cost": price.share, "broken": price.broken, "kinds": kinds}


def _example(tried: CureTrial, case: DrawnConversation | None, profile: str) -> Data:
    return {"conversation": name_of(tried.run), **({} if case is None else case.typed(profile))}


def _findings(tried: tuple[CureTrial, ...]) -> list[Data]:
    """Return the first findings of these conversations, most frequent first."""
    first = [(one.run.found or ())[0] for one in tried]
    counts = Counter((finding.name, finding.label) for finding in first)
    return [{"property": name, "rule": rule, "times": n} for (name, rule), n in counts.most_common()]


def _uncured(trial: CureTrial, case: DrawnConversation | None, profile: str, known: tuple[RuleVariant, ...]) -> Data:
    first = (trial.run.found or ())[0]
    pairs = [[known[i]._asdict(), known[k]._asdict()] for i, k in trial.pairs]
    said = {"property": first.name, "rule": first.label, "text": first.text}
    return {**_example(trial, case, profile), **said, "pairs": pairs}
