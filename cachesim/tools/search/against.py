"""One conversation under two rule sets: what only one of them has, and what each of them evaluates.

A finding is the other's too if that one has the same property broken in the same way, on the same kind of stored
object, not later in the conversation: what follows a first fault is not told. Which rule decided does not matter, since
the two rule sets may have another one in its place.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.judging.cold_comparison import Judge
from cachesim.tools.search.case import DrawnConversation
from cachesim.tools.search.crash import told
from cachesim.tools.search.examine import examined
from cachesim.tools.search.finding import PropertyFailure
from cachesim.tools.search.played_case import Fact, PlayedConversation, played


class Cost(NamedTuple):
    """Tokens of prompts that were evaluated under the one and under the other rule set, in so many requests; then the
    same for those that both answered rightly."""

    requests: int = 0
    mine: int = 0
    theirs: int = 0
    right: int = 0
    right_mine: int = 0
    right_theirs: int = 0

    def plus(self, other: Cost) -> Cost:
        """Of both together."""
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


class CampaignDiff(NamedTuple):
    """``new``: what only the rule set has that is looked at; ``mended``: what only the other has."""

    new: list[PropertyFailure]
    mended: list[PropertyFailure]
    cost: Cost


def compared(
    case: DrawnConversation, profile: str, against: str, properties: Sequence[str], judges: dict[str, Judge],
    mode: str = "provenance",
) -> CampaignDiff:
    """One conversation under both. Nothing is new or mended where it depends on a number that nobody wrote. Raises
    BadInput for what one of them cannot do."""
    mine, one = _heard(case, profile, properties, judges, mode)
    theirs, other = _heard(case, against, properties, judges, mode)
    if any(each is not None and each.unset for each in (one, other)):
        return CampaignDiff([], [], Cost())
    new, mended = ([finding for finding in found if not _has(known, finding)]
                   for found, known in ((mine, theirs), (theirs, mine)))  # fmt: skip
    return CampaignDiff(new, mended, Cost() if one is None or other is None else cost(one, other))


def _heard(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge], mode: str
) -> tuple[list[PropertyFailure], PlayedConversation | None]:
    """What is wrong under a rule set, and how it was played; None where the simulator or a rule of the user failed."""
    try:
        one = played(case.scenario(profile), profile, judges, None, mode)
        return examined(case, profile, properties, one, mode=mode), one
    except Exception as error:
        return [told(error)], None


def _has(known: Sequence[PropertyFailure], finding: PropertyFailure) -> bool:
    return any((one.name, one.kind, one.stored) == (finding.name, finding.kind, finding.stored)
               and one.step <= finding.step for one in known)  # fmt: skip


def cost(one: PlayedConversation, other: PlayedConversation) -> Cost:
    """What both evaluated."""
    theirs = {fact.number: fact for fact in other.facts}
    found = Cost()
    for fact in one.facts:
        if fact.number not in theirs:
            continue
        a, b = tokens(fact), tokens(theirs[fact.number])
        right = _right(fact) and _right(theirs[fact.number])
        found = found.plus(Cost(1, a, b, *((1, a, b) if right else ())))
    return found


def tokens(fact: Fact) -> int:
    """Tokens of the prompt that were evaluated, those of further completions too."""
    return sum(answer.prompt_n for answer in (fact.answer, *fact.answer.children))


def _right(fact: Fact) -> bool:
    answered = fact.answer.status == 200 and not fact.answer.died
    return answered and fact.said.holds is True and fact.state.holds is True
