"""What is wrong with one conversation under one rule set?"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import CAUSE, BadInput, cut
from cachesim.engines.rule_files import locate_fault
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.invariant_observer import Fact, PlayedConversation, played
from cachesim.tools.search.properties import BILLS, PROPERTIES, monotone
from cachesim.tools.search.property_failure import SIMULATOR, USERS_RULE, PropertyFailure

# One conversation under two rule sets: what only one of them has, and what each of them evaluates.
#
# A finding is the other's too if that one has the same property broken in the same way, on the same kind of stored
# object, not later in the conversation: what follows a first fault is not told. Which rule decided does not matter,
# since the two rule sets may have another one in its place.

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
        if same := theirs.get(fact.number):
            a, b = tokens(fact), tokens(same)
            found = found.plus(Cost(1, a, b, *((1, a, b) if _right(fact) and _right(same) else ())))
    return found


def tokens(fact: Fact) -> int:
    """Tokens of the prompt that were evaluated, those of further completions too."""
    return sum(answer.prompt_n for answer in (fact.answer, *fact.answer.children))


def _right(fact: Fact) -> bool:
    answered = fact.answer.status == 200 and not fact.answer.died
    return answered and fact.said.holds is True and fact.state.holds is True


# The simulator itself failed at a conversation, or a rule of the user did: what is told of that, and where it
# happened.

PACKAGE = Path(__file__).resolve().parents[2]
OUTER, INNER = 8, 32         # frames of a traceback that are kept at most: the outermost and the innermost
WIDE = 200                   # characters of a line of it


def failed(error: Exception) -> PropertyFailure | None:
    """The finding that a rule of the user raised this or returned no decision, or that the simulator itself failed.
    None for what else cannot be played: that is no failure."""
    theirs = locate_fault(error)
    if theirs is not None:
        place = f"{Path(theirs.file).name}:{theirs.line}"
        return PropertyFailure(USERS_RULE, 0, type(error).__name__, {"error": str(theirs)}, place)
    return None if isinstance(error, BadInput) else crashed(error)


def told(error: Exception) -> PropertyFailure:
    """The same finding; where it is None the error is raised again."""
    finding = failed(error)
    if finding is None:
        raise error
    return finding


def crashed(error: Exception) -> PropertyFailure:
    """The finding that the simulator itself failed; ``causes`` is the traceback, the middle of a long one left out. Its
    group is the exception and the function of ours that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)] or frames
    told = [cut(f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}", WIDE) for frame in frames]
    if (left := len(told) - OUTER - INNER) > 0:
        told[OUTER : OUTER + left] = [f"... {left} frames left out ..."]
    name = type(error).__name__
    text = cut(str(error) or name, CAUSE)
    return PropertyFailure(SIMULATOR, 0, name, {"error": text}, ours[-1].name if ours else "", causes=tuple(told))


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(PACKAGE.parent)) if path.is_relative_to(PACKAGE) else path.name


ALL = (*PROPERTIES, *BILLS, "monotone")


def findings(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge],
    table: Any | None = None, mode: str = "provenance",
) -> list[PropertyFailure]:
    """What is wrong with one conversation; ``table`` replaces the profile's rules, except for "monotone". Raises
    BadInput for what the engine cannot do."""
    one = None
    if any(name in PROPERTIES for name in properties):
        one = played(case.scenario(profile), profile, judges, table, mode)
    return examined(case, profile, properties, one, table, mode)


def examined(
    case: DrawnConversation, profile: str, properties: Sequence[str], one: PlayedConversation | None,
    table: Any | None = None, mode: str = "provenance",
) -> list[PropertyFailure]:
    """The same for a conversation that was played already; None = no property needs that."""
    if one is not None and one.unset:
        return []                       # its outcome depends on a number that nobody wrote: undecided
    found = [finding for name in properties if name in PROPERTIES and one is not None
             for finding in PROPERTIES[name](one)]  # fmt: skip
    if bills := [name for name in properties if name in BILLS]:
        run = run_judged(case.scenario(profile), profile, mode, table=table)
        found += [finding for name in bills for finding in BILLS[name](run)]
    if "monotone" in properties:
        found += monotone(case.scenario(profile), profile)
    return found


def shown(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge], mode: str = "provenance"
) -> list[PropertyFailure]:
    """The same, be it the simulator or a rule of the user that fails. Raises BadInput for what the engine cannot do."""
    try:
        return findings(case, profile, properties, judges, mode=mode)
    except Exception as error:
        return [told(error)]
