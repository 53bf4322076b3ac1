"""The verdict about a request or a run, in the words that every report uses; from plain data."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from rich.text import Text

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role
from cachesim.engines.shared.sentences import Dull

# What did a rule say, in words? Its engine has the sentence; a rule without one shows its numbers.

QUIET = (Role.ENABLE, Role.END)
"""Roles of decisions that say little about a cache: shown on request only."""


def sentence(rule: str, value: Any, because: Mapping[str, Any], every: bool = False) -> str:
    """One plain sentence about a decision, "" for one that changed nothing (but with ``every``, which says those too);
    unknown families show their numbers."""
    for engine in ENGINES.values():
        said = engine.say(rule, value, because)
        if said is not None:
            return "" if isinstance(said, Dull) and not every else str(said)
    return f"{value}  ({', '.join(f'{name} {one}' for name, one in because.items())})"


Data = Mapping[str, Any]

COLOURS = {"OK": "green", "UNDECIDED": "yellow", "REFUSED": "yellow"}
"""All other verdicts are red."""
ORDER = ("SERVER DIED", "ERROR", "WRONG OUTPUT", "CORRUPT STATE", "UNDECIDED", "REFUSED", "OK")
"""The worst first."""


def verdict_of(one: Data) -> str:
    """OK, WRONG OUTPUT, CORRUPT STATE (the output is right, what it left in the slot is not), ERROR (500) where a cold
    run answers, UNDECIDED, REFUSED (400) or SERVER DIED. ``one`` is a request of ``run_data``."""
    if one["died"]:
        return "SERVER DIED"
    if one["refused"]:
        return f"REFUSED ({one['status']})"
    if one["equal_cold"] is None:
        return "UNDECIDED"
    if one["equal_cold"]:
        return "OK"
    if one["rung"] == "error":
        return f"ERROR ({one['status']})"
    return "WRONG OUTPUT" if one["output_wrong"] else "CORRUPT STATE"


def verdict_of_run(requests: Sequence[Data]) -> str:
    """The worst verdict of all requests."""
    return min((one["verdict"] for one in requests), key=_rank, default="OK")


def _rank(verdict: str) -> int:
    return ORDER.index(verdict.partition(" (")[0])


def style_of(verdict: str) -> str:
    """The colour of a verdict."""
    return COLOURS.get(verdict.partition(" (")[0], "bold red")


def verdict_line(data: Data) -> Text:
    """What is wrong, at which requests, and whether the file says so. ``data`` is that of ``run_data``."""
    groups: dict[str, list[int]] = {}
    for one in data["requests"]:
        if one["verdict"] != "OK":
            groups.setdefault(one["verdict"], []).append(one["i"])
    found = sorted(groups, key=_rank)
    text = "; ".join(f"{name} at request {', '.join(map(str, groups[name]))}" for name in found) or "OK"
    known = "known bug, as expected" if data["holds"] is False else "as expected"
    text += {True: f" ({known})", False: ", NOT as expected", None: ""}[data["as_expected"]]
    good = data["as_expected"] is True and data["holds"] is True
    return Text(text, "bold red" if data["as_expected"] is False else "green" if good else style_of(data["verdict"]))
