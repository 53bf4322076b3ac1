"""Changes that ``import`` and ``watch`` propose for a log, and what each of them saves in a simulation."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.client_changes import ClientChange
from cachesim.tools.advise.ranking import Advice, bad, conditions, helps, key
from cachesim.tools.advise.search import AdviceSearch
from cachesim.tools.advise.setup_changes import (
    CaseArguments,
    ChangeKind,
    SetupChange,
    Trial,
    command_words,
    has_command_line,
    run_trial,
)

SAVES, NOTHING, NOT_SIMULATED = "saves", "saves nothing", "not simulated"
"""Outcomes of a proposed change."""
Data = dict[str, Any]


class ProposedChange(NamedTuple):
    """Change that ``import`` or ``watch`` proposes. ``cause``: its key; ``text``: the change in words; ``requests``:
    those that it concerns, by number. It is simulated as the change ``client``, which changes the texts as little as
    possible, and as ``most``, which keeps as much as possible; or as the client change called ``name``; or as one of
    the options ``flags``. ``why``: why it cannot be simulated."""

    cause: str
    text: str
    requests: tuple[int, ...] = ()
    client: ClientChange | None = None
    most: ClientChange | None = None
    name: str = ""
    flags: frozenset[str] = frozenset()
    why: str = ""


def proposed_data(
    search: AdviceSearch, advice: Advice, proposals: Sequence[ProposedChange], facts: CaseFacts | None,
    asked: CaseArguments,
) -> list[Data]:
    """Return what each proposed change saves, as data. ``advice``: the suggestions chosen from the trials of
    ``search``."""
    return [_proposed(one, search, advice, facts, asked) for one in proposals]


def _proposed(
    proposal: ProposedChange, search: AdviceSearch, advice: Advice, facts: CaseFacts | None, asked: CaseArguments
) -> Data:
    base = search.base
    trial = _best_trial(proposal, search, facts)
    data: Data = {"cause": proposal.cause, "text": proposal.text, "requests": list(proposal.requests),
                  "outcome": NOT_SIMULATED, "evaluated": None, "saved": None, "saved_most": None, "suggestion": None,
                  "rests_on": [], "why": "", "command": ""}  # fmt: skip
    if trial is None:
        return {**data, "why": _why_not(proposal, search, facts)}
    saved = base.outcome.evaluated - trial.outcome.evaluated
    data |= {"evaluated": trial.outcome.evaluated, "rests_on": list(conditions(trial, base, facts)),
             "command": _command(trial, asked)}  # fmt: skip
    if not helps(trial, base) or saved <= 0:
        return {**data, "outcome": NOTHING, "saved": 0, "why": _worse(trial, base)}
    return {**data, "outcome": SAVES, "saved": saved, "saved_most": max(saved, _saved_most(proposal, search)),
            "suggestion": _place(trial, advice)}  # fmt: skip


def _best_trial(proposal: ProposedChange, search: AdviceSearch, facts: CaseFacts | None) -> Trial | None:
    """Return the best trial of a proposed change alone, None without one."""
    trials = [one for one in search.found if len(one.changes) == 1 and _is_of(proposal, one.changes[0])
              and (facts is None or facts.allows(one.changes[0], search.case))]  # fmt: skip
    return min(trials, key=key, default=None)


def _is_of(proposal: ProposedChange, change: SetupChange) -> bool:
    """True if a change is a form of a proposed change."""
    if change.client is not None:
        return change.client is proposal.client or (bool(proposal.name) and change.client.name == proposal.name)
    return change.kind is ChangeKind.FLAG and bool(proposal.flags) and {*change.options} <= proposal.flags


def _why_not(proposal: ProposedChange, search: AdviceSearch, facts: CaseFacts | None) -> str:
    """Return why a proposed change has no trial."""
    if facts is not None and facts.is_refuted:
        return "the simulation contradicts the log"
    if proposal.why:
        return proposal.why
    if any(_is_of(proposal, one) for one in search.untried):
        return "the search stopped before it"
    if proposal.flags:
        return "no other value can be tried"
    return "what the slot held is not a prompt of the log with its answer"


def _worse(trial: Trial, base: Trial) -> str:
    """Return why a trial has worse answers, "" if it has as many correct ones."""
    if bad(trial) <= bad(base):
        return ""
    failed = len({*trial.outcome.failed} - {*base.outcome.failed})
    return f"{failed} more requests have no answer, they do not fit into the context" if failed else \
        "more answers are wrong or undecided"


def _saved_most(proposal: ProposedChange, search: AdviceSearch) -> int:
    """Return the tokens that a proposed change saves if the texts repeat as much as possible; 0 if that is unknown."""
    if proposal.most is None:
        return 0
    try:
        case = SetupChange(ChangeKind.CLIENT, client=proposal.most).of(search.case)
        trial = None if case is None else run_trial(case)
    except BadInput:
        return 0
    if trial is None or bad(trial) > bad(search.base):
        return 0
    return search.base.outcome.evaluated - trial.outcome.evaluated


def _place(trial: Trial, advice: Advice) -> int | None:
    """Return the number of the suggestion that is a trial, None if it is not among them."""
    pieces = enumerate(advice.released, 1)
    return next((number for number, piece in pieces if trial is piece.tried or trial in piece.alike), None)


def _command(trial: Trial, asked: CaseArguments) -> str:
    """Return the command that repeats a trial, "" if a command line cannot express it."""
    if not has_command_line(trial, asked):
        return ""
    return shell_command(["cachesim", "run", *command_words(trial, asked)])
