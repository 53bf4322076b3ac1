"""What was found, as data: for JSON, for the eye, and as a scenario file ready to commit."""

from __future__ import annotations

from typing import Any

from cachesim.fuzz.campaign import Campaign, Failure
from cachesim.fuzz.case import Case, longest
from cachesim.scenarios.write import to_toml


def campaign_data(campaign: Campaign, properties: tuple[str, ...], seed: int) -> dict[str, Any]:
    """A campaign that is over. Its failures are in the order in which their first conversations stand."""
    failures = sorted(campaign.failures.values(), key=lambda one: one.first)
    return {
        "profile": campaign.profile, "properties": list(properties), "seed": seed, "examples": campaign.played,
        "refused": campaign.refused,
        "failures": [_failure(i, one, campaign.profile) for i, one in enumerate(failures, 1)],
    }  # fmt: skip


def _failure(number: int, one: Failure, profile: str) -> dict[str, Any]:
    finding, case = one.finding, one.small
    data: dict[str, Any] = {
        "property": finding.name, "rule": finding.rule, "text": finding.text, "times": one.times,
        "conversation": one.first, "step": finding.step, "causes": list(finding.causes),
    }  # fmt: skip
    if case is not None:
        data |= {
            "line": repr(case.scenario(profile)), "model": case.model, "server": case.given(),
            "requests": len(case.asked), "longest": longest(case), "id": case_id(case, number),
            "toml": case_toml(case, profile, one, number),
        }  # fmt: skip
    return data


def case_toml(case: Case, profile: str, failure: Failure, number: int) -> str:
    """The case as a scenario file. Its name is its id; the expectations are for `cachesim run --complete`."""
    finding = failure.finding
    why = f"{finding.name}: {finding.text} ({finding.rule}). Found by cachesim fuzz -p {profile}."
    head = {
        "id": case_id(case, number), "title": f"{finding.name} fails under {profile}", "source": ["cachesim"],
        "why": why,
        "engine": case.engine, "model": case.model, "profiles": [profile],
    }  # fmt: skip
    return to_toml(head, case.server, {name: n for name, n in case.words.items() if n}, case.asked)


def case_id(case: Case, number: int) -> str:
    """The name of its file: the conversation, and the number of the failure."""
    return f"fuzz-{case.seed}-{number}"
