"""Grouping of a campaign's failures by cause: the smallest rule change that cures them.

A change replaces a rule by that of another rule set, as in ``cachesim repair``. The smallest is the one that decides
fewest times differently in the failing run; among equals, that of the newest rule set. Failures are never grouped by
their text. The work is a small share of the campaign's and is counted in runs, so that equal campaigns have equal
causes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Mapping

from cachesim.base.errors import Unwritable
from cachesim.judging.compare_answer import Judge
from cachesim.judging.rule_exchange import variants
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.campaign import CampaignPlan
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.rule_mutations import MutationSearch, others_of, run_mutated

PART = 10              # one run per so many conversations of the campaign
EACH = 8               # runs per shrunk failure; shrinking needs about 100 runs or more


def run_budget(data: Mapping[str, Any]) -> int:
    """Return the number of runs that grouping may use: less than a tenth of those of the campaign."""
    return int(data["examples"]) // PART + EACH * sum(bool(one["shrunk"]) for one in data["failures"])


def with_causes(data: Mapping[str, Any], plan: CampaignPlan, in_time: Callable[[], bool]) -> dict[str, Any]:
    """Return the data of a campaign with its failures, by number, in groups: ``cures`` = cured by the same change,
    ``uncured`` = by no single change, ``ungrouped`` = not examined, because the runs or the time were used up or
    because the property needs several runs."""
    search = MutationSearch(plan.profile, tuple(name for name in plan.properties if name in PROPERTIES))
    known = tuple(variants(plan.profile))
    others = others_of(known)
    judges = dict[str, Judge]()
    budget = run_budget(data)
    causes: dict[int, list[int]] = {}
    uncured: list[int] = []
    ungrouped: list[int] = []
    for number, one in enumerate(data["failures"]):
        ungrouped.append(number)
        if "line" not in one or one["property"] not in search.properties or not budget or not in_time():
            continue
        with suppress(Unwritable):
            case = from_line(one["line"], model=one["model"], profiles=(plan.profile,), server=dict(one["server"]))
            run = run_mutated(case, search, judges, others=others)
            order = sorted(run.matter, key=lambda i: (run.matter[i], i))
            tried = [] if not run.found else order[: budget - 1]
            budget -= 1
            cure = None
            for i in tried:
                budget -= 1
                if run_mutated(case, search, judges, [known[i]]).found == ():
                    cure = i
                    break
            if cure is not None or (run.found and len(tried) == len(order)):
                ungrouped.pop()
                (uncured if cure is None else causes.setdefault(cure, [])).append(number)
    found = [{**known[i]._asdict(), "failures": numbers} for i, numbers in causes.items()]
    return {**data, "cures": found, "uncured": uncured, "ungrouped": ungrouped}
