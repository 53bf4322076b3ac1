"""Findings of a conversation under a rule set, or under two rule sets to compare them."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import CAUSE, BadInput, cut
from cachesim.engines.rule_files import locate_fault
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.invariant_observer import CheckedRun, StepRecord, observe_run
from cachesim.tools.search.properties import LEDGER_PROPERTIES, PROPERTIES, monotone
from cachesim.tools.search.property_failure import SIMULATOR, USERS_RULE, PropertyFailure

# A conversation under two rule sets: the findings of either that the other lacks, and the tokens that each evaluates.
#
# Both have a finding if the other breaks the same property in the same way, on the same kind of stored object, and not
# later in the conversation: failures after the first are not reported. The deciding rules may differ, since the two
# rule sets may have different rules in the same place.

class CampaignCost(NamedTuple):
    """Evaluated prompt tokens under two rule sets, over the requests that both ran."""

    requests: int = 0
    mine: int = 0                   # tokens under the rule set of the search
    theirs: int = 0                 # tokens under the other
    right: int = 0                  # requests that both answer correctly
    right_mine: int = 0             # tokens of these under the rule set of the search
    right_theirs: int = 0           # tokens of these under the other

    def plus(self, addend: CampaignCost) -> CampaignCost:
        """Return the sum of two costs."""
        return CampaignCost(*(a + b for a, b in zip(self, addend, strict=True)))


class CampaignDiff(NamedTuple):
    """Comparison of two rule sets. ``new``: findings of only the first; ``mended``: findings of only the second."""

    new: list[PropertyFailure]
    mended: list[PropertyFailure]
    cost: CampaignCost


def compared(
    case: DrawnConversation, profile: str, against: str, properties: Sequence[str], judges: dict[str, Judge],
    mode: str = "provenance",
) -> CampaignDiff:
    """Compare a conversation under two profiles. If its outcome depends on a number that the server never wrote, the
    result is empty. Raise BadInput if a profile does not support the conversation."""
    mine, one = _heard(case, profile, properties, judges, mode)
    theirs, other = _heard(case, against, properties, judges, mode)
    if any(each is not None and each.unset for each in (one, other)):
        return CampaignDiff([], [], CampaignCost())
    new, mended = ([finding for finding in found if not _has(known, finding)]
                   for found, known in ((mine, theirs), (theirs, mine)))  # fmt: skip
    return CampaignDiff(new, mended, CampaignCost() if one is None or other is None else cost(one, other))


def _heard(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge], mode: str
) -> tuple[list[PropertyFailure], CheckedRun | None]:
    """Return the findings under a profile and the run; None instead if the simulator or a user's rule failed."""
    try:
        one = observe_run(case.scenario(profile), profile, judges, None, mode)
        return examined(case, profile, properties, one, mode=mode), one
    except Exception as error:
        return [told(error)], None


def _has(known: Sequence[PropertyFailure], finding: PropertyFailure) -> bool:
    return any((one.name, one.kind, one.stored) == (finding.name, finding.kind, finding.stored)
               and one.step <= finding.step for one in known)  # fmt: skip


def cost(first: CheckedRun, second: CheckedRun) -> CampaignCost:
    """Return the evaluated tokens of the requests that occur in both runs."""
    theirs = {step.number: step for step in second.steps}
    found = CampaignCost()
    for step in first.steps:
        if same := theirs.get(step.number):
            a, b = tokens(step), tokens(same)
            found = found.plus(CampaignCost(1, a, b, *((1, a, b) if _right(step) and _right(same) else ())))
    return found


def tokens(step: StepRecord) -> int:
    """Return the evaluated prompt tokens of a step, including those of further completions."""
    return sum(answer.prompt_n for answer in (step.answer, *step.answer.children))


def _right(step: StepRecord) -> bool:
    answered = step.answer.status == 200 and not step.answer.died
    return answered and step.verdict.equal_cold is True and step.state.equal_cold is True


# Failures of the simulator itself or of a user's rule: the finding and its place in the source.

PACKAGE = Path(__file__).resolve().parents[2]
OUTER, INNER = 8, 32         # maximum number of outermost and of innermost frames of a traceback that are kept
WIDE = 200                   # maximum characters of a line of a traceback


def failed(error: Exception) -> PropertyFailure | None:
    """Return the finding for an exception: a user's rule failed, or the simulator itself. Return None if the
    conversation is merely not supported (BadInput)."""
    theirs = locate_fault(error)
    if theirs is not None:
        place = f"{Path(theirs.file).name}:{theirs.line}"
        return PropertyFailure(USERS_RULE, 0, type(error).__name__, {"error": str(theirs)}, place)
    return None if isinstance(error, BadInput) else crashed(error)


def told(error: Exception) -> PropertyFailure:
    """Return the finding for an exception; raise the exception again if it is not a failure (BadInput)."""
    finding = failed(error)
    if finding is None:
        raise error
    return finding


def crashed(error: Exception) -> PropertyFailure:
    """Return the finding that the simulator itself failed. ``causes``: the shortened traceback. The group
    consists of the exception type and the innermost function of this package."""
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


ALL = (*PROPERTIES, *LEDGER_PROPERTIES, "monotone")


def findings(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge],
    table: Any | None = None, mode: str = "provenance",
) -> list[PropertyFailure]:
    """Run a conversation and return its findings. ``table`` replaces the profile's rules, except for "monotone". Raise
    BadInput if the engine does not support the conversation."""
    one = None
    if any(name in PROPERTIES for name in properties):
        one = observe_run(case.scenario(profile), profile, judges, table, mode)
    return examined(case, profile, properties, one, table, mode)


def examined(
    case: DrawnConversation, profile: str, properties: Sequence[str], observed: CheckedRun | None,
    table: Any | None = None, mode: str = "provenance",
) -> list[PropertyFailure]:
    """Return the findings of an observed run; the run may be None if no property in ``properties`` needs it."""
    if observed is not None and observed.unset:
        return []                       # the outcome depends on a number that was never written: undecided
    found = [finding for name in properties if name in PROPERTIES and observed is not None
             for finding in PROPERTIES[name](observed)]  # fmt: skip
    if bills := [name for name in properties if name in LEDGER_PROPERTIES]:
        run = run_judged(case.scenario(profile), profile, mode, table=table)
        found += [finding for name in bills for finding in LEDGER_PROPERTIES[name](run)]
    if "monotone" in properties:
        found += monotone(case.scenario(profile), profile)
    return found


def shown(
    case: DrawnConversation, profile: str, properties: Sequence[str], judges: dict[str, Judge], mode: str = "provenance"
) -> list[PropertyFailure]:
    """Return the findings, including failures of the simulator and of user's rules. Raise BadInput if the engine does
    not support the conversation."""
    try:
        return findings(case, profile, properties, judges, mode=mode)
    except Exception as error:
        return [told(error)]
