"""Reasons for the options of the best setting for agents: each names what decided between it and the best setting with
another value, from the numbers of both."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.judging.reproduce_command import flag_text
from cachesim.tools.advise.agent_search import FINE, WORTH, AgentAdvice, AgentSearch, CostlySetting

Data = dict[str, Any]
GIB = 1 << 30
CONTEXT = "context"
FILLED = "filled"
UNTRIED = "untried"
WRONG = "wrong"
UNANSWERED = "unanswered"
EVALUATED = "evaluated"
PRECISION = "precision"
MEMORY = "memory"
TIE = "tie"
PART, NOT_RUN = "part", "not run"


def reasons_data(search: AgentSearch, advice: AgentAdvice) -> Iterator[Data]:
    """Yield the reason of each option of the best setting, once for each flag: what ``decided``, the numbers of the
    best setting (``here``) and of the best setting with another value (``there``), and the ``text`` made of them."""
    seen = set[str]()
    for name, value in advice.best[0].setting.options.items():
        flag = _flag(name, value, search)
        if flag not in seen:
            seen.add(flag)
            found = _reason(name, search, advice)
            yield {"name": name, "flag": flag, **found, "text": reason_text(found)}


def _flag(name: str, value: Any, search: AgentSearch) -> str:
    flag = search.flag_named(name)
    return flag_text(flag, value, search.engine.manual.open_words)


def _reason(name: str, search: AgentSearch, advice: AgentAdvice) -> Data:
    """Return the reason of an option. ``compared_on``: the servers of the numbers, "all" or "part"."""
    best, context = advice.best[0], search.engine.manual.context
    own: Data = {"decided": UNTRIED, "compared_on": "all", "other": "", "here": _numbers(best), "there": None,
                 "slot": None, "longest_request": search.load.longest}  # fmt: skip
    if context and context.name == name:
        options = best.setting.options
        return {**own, "decided": CONTEXT, "slot": int(options[name]) // context.parts(options)}
    if name in search.agents.filled:
        return {**own, "decided": FILLED}
    value = _value(best, name, search)
    for servers, decided, tried in (("all", "", advice.ran), ("all", WRONG, advice.wrong), (PART, "", advice.first)):
        rival = min((one for one in tried if _value(one, name, search) != value), key=_rank, default=None)
        if rival is None:
            continue
        here = best if servers == "all" else next(one for one in advice.first if one.setting == best.setting)
        other = _flag(name, _value(rival, name, search), search)
        decided = decided or _decided(here, rival, servers)
        return {**own, "decided": decided, "compared_on": servers, "other": other, "here": _numbers(here),
                "there": _numbers(rival)}  # fmt: skip
    return own


def _rank(costly: CostlySetting) -> tuple[Any, ...]:
    return costly.rank


def _value(costly: CostlySetting, name: str, search: AgentSearch) -> Any:
    return costly.setting.options.get(name, search.flag_named(name).default)


def _numbers(costly: CostlySetting) -> Data:
    setting, cost = costly
    return {"evaluated": cost.evaluated, "prompt_tokens": cost.prompt, "units": cost.units, "bytes": setting.total,
            "less_precise": setting.is_imprecise, "unanswered": cost.unanswered, "requests": cost.requests,
            "wrong": cost.wrong}  # fmt: skip


def _decided(here: CostlySetting, there: CostlySetting, servers: str) -> str:
    """Return the first part of the ranks that differs; "not run" if the other setting ranks higher on a part of the
    servers and did not run on all."""
    if there.rank < here.rank:
        return NOT_RUN if servers == PART else TIE
    if here.cost.unanswered != there.cost.unanswered:
        return UNANSWERED
    if here.setting.is_imprecise != there.setting.is_imprecise:
        return PRECISION
    if here.cost.units != there.cost.units:
        return EVALUATED
    return MEMORY if here.setting.total != there.setting.total else TIE


def reason_text(found: Mapping[str, Any]) -> str:
    """Return the sentence of a reason, from its numbers alone."""
    match found["decided"]:
        case "context" if found["slot"] < found["longest_request"]:
            return (f"the largest context that fits: {found['slot']:,} tokens for a slot; the longest request has "
                    f"{found['longest_request']:,}")  # fmt: skip
        case "context":
            return f"each slot holds the longest request ({found['longest_request']:,} tokens)"
        case "filled":
            return "as many as fit into the memory"
        case "untried":
            return "no other value ran on all servers"
        case _:
            where = " on the servers with the longest requests" if found["compared_on"] == PART else ""
            return f"{_compared(found)}{where}"


def _compared(found: Mapping[str, Any]) -> str:
    here = found["here"]
    there = found["there"]
    other = found["other"]
    match found["decided"]:
        case "wrong":
            return f"with {other}, {there['wrong']} of {there['requests']} answers are wrong"
        case "unanswered":
            return (f"with {other}, {there['unanswered']} of {there['requests']} requests have no answer; here "
                    f"{here['unanswered']}")  # fmt: skip
        case "evaluated":
            return f"{_percent(here)} of the prompt tokens are evaluated; with {other}, {_percent(there)}"
        case "precision":
            return _precision(here, there, other)
        case "not run":
            return f"{other} did not run on all servers; it evaluates {there['evaluated']:,} instead of " \
                   f"{here['evaluated']:,} tokens"  # fmt: skip
    tie = f"{other} evaluates {there['evaluated']:,} instead of {here['evaluated']:,} tokens, a tie at {100 / FINE:g} %"
    if found["decided"] == "memory":
        return f"{tie}, and takes more memory ({_gib(there)} instead of {_gib(here)})"
    return f"{tie}, and takes as much memory ({_gib(here)})" if here["bytes"] == there["bytes"] else tie


def _precision(here: Data, there: Data, flag: str) -> str:
    evaluated = f"{_percent(there)} of the prompt tokens are evaluated instead of {_percent(here)}"
    least = f"{100 // WORTH} % of the prompt tokens"
    if there["less_precise"]:
        return f"with {flag}, {evaluated}: less precise rows must save {least}"
    return f"with {flag}, {evaluated}: the less precise rows save {least} or more"


def _percent(cost: Mapping[str, Any]) -> str:
    return f"{100 * cost['evaluated'] / cost['prompt_tokens']:.2f} %" if cost["prompt_tokens"] else "0 %"


def _gib(numbers: Mapping[str, Any]) -> str:
    return f"{numbers['bytes'] / GIB:,.1f} GiB"
