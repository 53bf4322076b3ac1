"""What is wrong with one conversation under one rule set?"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.judging.cold_comparison import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.tools.search.case import DrawnConversation
from cachesim.tools.search.crash import told
from cachesim.tools.search.finding import PropertyFailure
from cachesim.tools.search.played_case import PlayedConversation, played
from cachesim.tools.search.properties import BILLS, PROPERTIES, monotone

ALL = (*PROPERTIES, *BILLS, "monotone")


def findings(
    case: DrawnConversation,
    profile: str,
    properties: Sequence[str],
    judges: dict[str, Judge],
    table: Any | None = None,
    mode: str = "provenance",
) -> list[PropertyFailure]:
    """What is wrong with one conversation; ``table`` replaces the profile's rules, except for "monotone". Raises
    BadInput for what the engine cannot do."""
    one = None
    if any(name in PROPERTIES for name in properties):
        one = played(case.scenario(profile), profile, judges, table, mode)
    return examined(case, profile, properties, one, table, mode)


def examined(
    case: DrawnConversation,
    profile: str,
    properties: Sequence[str],
    one: PlayedConversation | None,
    table: Any | None = None,
    mode: str = "provenance",
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
    """What is wrong with one conversation, be it the simulator or a rule of the user. Raises BadInput for what the
    engine cannot do."""
    try:
        return findings(case, profile, properties, judges, mode=mode)
    except Exception as error:
        return [told(error)]
