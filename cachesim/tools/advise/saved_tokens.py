"""Tokens that another client or other flags would have saved: a number for a whole conversation, computed by running
the repaired conversation."""

from __future__ import annotations

from functools import partial
from typing import AbstractSet, Any, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.memory_meter import UNITS
from cachesim.tools.advise.proposals import ProposedChange
from cachesim.tools.advise.ranking import choose_best
from cachesim.tools.advise.report import changes_text
from cachesim.tools.advise.search import AdviceSearch, case_data, piece_data
from cachesim.tools.advise.setup_changes import CaseArguments, ChangeKind, Setup, SetupChange, Trial, TrialRuns

TOKENS, SENT = 1_000_000, 200    # limits of a search that was not requested: prompt tokens and requests to run,
ROUNDS, PART = 11_000, 128       # and generated tokens; PART prompt tokens take as long as a generated token
Data = dict[str, Any]


class RepairCase(NamedTuple):
    """A conversation to repair. ``assumes``: what is assumed about its texts; ``variants``: the same conversation with
    other lengths of the assumed texts; ``excluded``: names of client changes that do not apply to it or that it
    contradicts; ``facts``: what the log shows, None = the conversation is written as it was sent; ``proposed``: changes
    that the reports on the log propose."""

    scenario: Scenario
    assumes: str = ""
    variants: tuple[Scenario, ...] = ()
    varied: str = ""                           # lengths of the assumed texts in the case and its variants
    excluded: AbstractSet[str] = frozenset()
    facts: CaseFacts | None = None
    proposed: tuple[ProposedChange, ...] = ()

    @property
    def has_texts(self) -> bool:
        """True if the prompts are known as sent, False for a log without texts."""
        return self.facts is None


def saved_tokens(case: RepairCase, spent: int = 0, runs: TrialRuns | None = None) -> Data | None:
    """Return the evaluated tokens of a conversation, and how many of them the best change of the client or of flags
    saves; None if no change saves enough, or if the case cannot run. The work is limited independently of time;
    ``too_slow`` is True if the limits do not allow a trial. ``spent``: work of other runs of the conversation.
    ``runs``: earlier runs of the conversation, None = all are made here."""
    scenario = case.scenario
    tokens = sum(len(step.request.prompt) for step in scenario.steps)
    tries = min(TOKENS // max(1, tokens), SENT // len(scenario.steps) - 1)       # the unchanged case is run first
    cost = sum(max(0, step.request.n_predict) for step in scenario.steps) + tokens // PART
    if tries <= 0 or 2 * cost + spent > ROUNDS:
        return {"too_slow": True}
    try:
        search = AdviceSearch(Setup(scenario, scenario.profiles[0]), judges_all=False, runs=runs)
        singles = sorted(filter(partial(_applies, case), search.singles), key=lambda one: one.kind, reverse=True)
        for one in singles[:tries]:
            search.attempt((one,))
            if cost * (2 + len(search.found)) + spent > ROUNDS:
                break
        chosen = choose_best(search.base, search.found, UNITS, CaseArguments(), case.facts)
    except BadInput:
        return None
    if chosen is None:
        return None
    chosen = chosen._replace(tried=search.with_smallest_size(chosen.tried))
    data, best = case_data(search), piece_data(chosen, search, UNITS, CaseArguments())
    if best["saved"] <= 0:
        return None
    every = [best["saved"], *(_saved(other, chosen.tried, search.runs) for other in case.variants)]
    client = any(change["kind"] == "client" for change in best["changes"])
    return {
        "too_slow": False, "evaluated": data["base"]["evaluated"], "saved": best["saved"], "share": best["share"],
        "lowest": min(every), "highest": max(every), "changes": [change["name"] for change in best["changes"]],
        "text": changes_text(best, data),
        "client": client, "command": best["command"], "profile": data["profile"], "model": data["model"],
        "assumes": "; and ".join(dict.fromkeys(filter(None, [case.assumes if client else "", *best["rests_on"]]))),
        "varied": case.varied if client else "",
    }  # fmt: skip


def _applies(case: RepairCase, change: SetupChange) -> bool:
    """True if a change is one of flags, or one of the client that applies to the case."""
    client = change.client is not None and change.client.name not in case.excluded
    return change.kind is ChangeKind.FLAG or (client and not change.options)


def _saved(scenario: Scenario, trial: Trial, runs: TrialRuns) -> int:
    """Return the tokens that the changes of a trial save in another scenario; 0 if they have no effect."""
    base = Setup(scenario, scenario.profiles[0])
    case: Setup | None = base
    for one in trial.changes:
        case = case and one.of(case)
    return runs.counted(base).outcome.evaluated - runs.counted(case).outcome.evaluated if case is not None else 0
