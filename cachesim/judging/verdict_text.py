"""Sentences about decisions and verdicts, made from the plain data of a run and shared by all reports."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, Sequence

from rich.text import Text

from cachesim.base.errors import counted
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role
from cachesim.engines.shared.sentences import NoEffect
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.verdict_words import (
    CORRUPT_STATE,
    NEVER_ANSWERED,
    OK,
    SERVER_DIED,
    UNDECIDED,
    WORDS,
    WRONG_OUTPUT,
    VerdictWord,
    error_name,
    rank,
    shown_verdict,
)

QUIET = (Role.ENABLE, Role.END)
"""Roles of decisions that rarely affect the cache: reports show them on request only."""


def sentence(rule: str, value: Any, because: Mapping[str, Any], every: bool = False) -> str:
    """Return a plain sentence about a decision. The engine of the rule supplies it; a rule without a sentence shows its
    numbers. A decision that changed nothing gives "", with ``every`` its sentence."""
    for engine in ENGINES.values():
        text = engine.say(rule, value, because)
        if text is not None:
            return "" if isinstance(text, NoEffect) and not every else str(text)
    return f"{value}  ({', '.join(f'{name} {number}' for name, number in because.items())})"


Data = Mapping[str, Any]


def verdict_of(request: Data) -> str:
    """Return the verdict about a request of ``run_data``: OK, WRONG OUTPUT, CORRUPT STATE (correct output, but
    wrong state left in the slot), ERROR (500) where a cold run answers, UNDECIDED, REFUSED (400), NEVER ANSWERED or
    SERVER DIED."""
    if request["died"]:
        return SERVER_DIED.name
    if request["rung"] == "unanswered":
        return NEVER_ANSWERED.name
    if request["refused"] or request["rung"] == "error":
        return error_name(request["refused"], request["status"])
    if request["equal_cold"] is None:
        return UNDECIDED.name
    if request["equal_cold"]:
        return OK.name
    return WRONG_OUTPUT.name if request["output_wrong"] else CORRUPT_STATE.name


def verdict_of_run(requests: Sequence[Data], not_run: int) -> str:
    """Return the worst verdict of all requests, OK if there are no requests. ``not_run``: number of further requests,
    which are undecided."""
    left = [UNDECIDED.name] if not_run else []
    return min((*left, *(request["verdict"] for request in requests)), key=rank, default=OK.name)


def style_of(verdict: str) -> str:
    """Return the colour of a verdict; that of a wrong one for another text."""
    shown = shown_verdict(verdict)
    return WORDS[VerdictWord.WRONG if shown is None else shown.word].colour


def verdict_line(data: Data) -> Text:
    """Return the verdict about a run of ``run_data``: the answers, the cost in re-evaluated tokens, and whether the
    scenario file expects the verdict, e.g. ``wrong answer at request 2, 60 tokens re-evaluated (known bug, as
    expected)``."""
    known = "known bug, as expected" if data["holds"] is False else "as expected"
    end = {True: f" ({known})", False: ", NOT as expected", None: ""}[data["as_expected"]]
    good = data["as_expected"] is True and data["holds"] is True
    plain = style_of(OK.name) if good else style_of(data["verdict"])
    style = style_of(WRONG_OUTPUT.name) if data["as_expected"] is False else plain
    return Text(f"{answers_text(data)}, {cost_text(data)}{end}", style)


def answers_text(data: Data) -> str:
    """Return the verdict about the answers of a run: ``wrong answer at request 2``."""
    groups: dict[str, list[int]] = {}
    for request in data["requests"]:
        if request["verdict"] != OK.name:
            groups.setdefault(request["verdict"], []).append(request["i"])
    text = "; ".join(_answers_at(verdict, groups[verdict]) for verdict in sorted(groups, key=rank))
    text = text or f"{OK.phrase}{'s' if len(data['requests']) > 1 else ''}"
    return text + (f"; {counted(data['not_run'], 'request')} not run" if data["not_run"] else "")


def loss_text(lost: Sequence[Data], kept: str) -> str:
    """Return the reason of the largest of these charges, by tokens; "" without charges. ``kept``: the engine's noun for
    a restore point of a running request."""
    tokens = Counter[str]()
    for charge in lost:
        tokens[what_happened(charge["event"], charge["kind"], kept)] += charge["tokens"]
    return tokens.most_common(1)[0][0] if tokens else ""


def titles_text(titles: Mapping[str, str]) -> str:
    """Return the titles of words: ``S system, A chat A``."""
    return ", ".join(f"{word} {title}" for word, title in titles.items())


def cost_text(data: Data) -> str:
    """Return the cost in the data of a run or a request: ``60 tokens re-evaluated``."""
    return f"{counted(sum(charge['tokens'] for charge in data['lost']), 'token')} re-evaluated"


def answer_text(verdict: str) -> str:
    """Return a verdict in the words of the verdict line: ``wrong answer``, ``refused (400)``; other words as they
    are."""
    name, bracket, status = verdict.partition(" (")
    shown = shown_verdict(verdict)
    return f"{name if shown is None else shown.phrase}{bracket}{status}"


def _answers_at(verdict: str, requests: Sequence[int]) -> str:
    """Return a verdict with its request numbers: ``wrong answer at requests 2, 3 and 5``."""
    *most, last = map(str, requests)
    where = f"requests {', '.join(most)} and {last}" if most else f"request {last}"
    return f"{answer_text(verdict)} at {where}"
