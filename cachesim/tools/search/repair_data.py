"""What is known of a rule set's failures and their cures, as data: for JSON and for the eye."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cachesim.judging.failure_chain import explained
from cachesim.tools.search.case import DrawnConversation
from cachesim.tools.search.cures import CureTrial, Price, Variant, share
from cachesim.tools.search.repair import Repair, name_of

Data = dict[str, Any]


def repair_data(found: Repair) -> Data:
    """Everything about a repair, for JSON and for the eye."""
    cases = iter(found.small or [None] * (len(found.groups) + len(found.uncured)))
    profile, known = found.search.profile, found.known
    return {
        "profile": profile, "seed": found.seed, "properties": list(found.search.properties),
        "files": found.files, "examples": len(found.asked), "right": len(found.right),
        "undecided": sum(one.found is None for one in found.asked),
        "failing": len(found.failing), "tried": len(known),
        "groups": [
            {
                **known[one.change]._asdict(), "failures": len(one.cured), **_price(found.prices[one.change]),
                **_example(one.cured[0], next(cases), profile),
                "findings": _findings(one.cured),
                "conversations": [name_of(tried.heard) for tried in one.cured],
                "others": [
                    {**known[i]._asdict(), "cures": n, **_price(found.prices[i])} for i, n in one.others
                ],
            }
            for one in found.groups
        ],
        "uncured": [_uncured(one, next(cases), profile, known) for one in found.uncured],
        "together": None if found.together is None else {"held": found.held, **_price(found.together)},
    }  # fmt: skip


def with_failures(data: Data) -> Data:
    """The data of a repair in which the example of each cause, and what is uncured, is ``explained``."""
    groups = [explained(one, data["profile"], -1, one["findings"][0]["property"]) for one in data["groups"]]
    return {**data, "groups": groups, "uncured": [explained(one, data["profile"], -1, one["text"])
                                                  for one in data["uncured"]]}  # fmt: skip


def _price(price: Price) -> Data:
    kinds = {
        kind: {"before": was, "after": price.after[kind], "cost": share(was, price.after[kind])}
        for kind, was in sorted(price.before.items())
    }
    return {"cost": price.share, "broken": price.broken, "kinds": kinds}


def _example(tried: CureTrial, case: DrawnConversation | None, profile: str) -> Data:
    heard = tried.heard
    name = {"conversation": name_of(heard)}
    if case is None:
        return name
    return {**name, "line": repr(case.scenario(profile)), "model": case.model, "server": case.given()}


def _findings(tried: tuple[CureTrial, ...]) -> list[Data]:
    """What was found in these conversations first of all, most often met first."""
    first = [(one.heard.found or ())[0] for one in tried]
    counts = Counter((finding.name, finding.label) for finding in first)
    return [{"property": name, "rule": rule, "times": n} for (name, rule), n in counts.most_common()]


def _uncured(one: CureTrial, case: DrawnConversation | None, profile: str, known: tuple[Variant, ...]) -> Data:
    first = (one.heard.found or ())[0]
    return {
        **_example(one, case, profile), "property": first.name, "rule": first.label, "text": first.text,
        "pairs": [[known[i]._asdict(), known[k]._asdict()] for i, k in one.pairs],
    }  # fmt: skip
