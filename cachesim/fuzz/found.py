"""What was found, as data: for JSON, for the eye, and as a scenario file ready to commit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Sequence

from cachesim.fuzz.campaign import Campaign, Failure, drawn
from cachesim.fuzz.case import Case, longest
from cachesim.fuzz.properties import Finding
from cachesim.rule_files import heading, typed
from cachesim.scenarios.write import to_toml


def campaign_data(
    campaign: Campaign, properties: Sequence[str], seed: int, models: Sequence[str] = ()
) -> dict[str, Any]:
    """A campaign that is over. Its failures are in the order in which their first conversations stand."""
    failures = sorted(campaign.failures.values(), key=lambda one: (one.first, one.finding.group))
    return {
        "profile": campaign.profile, "properties": list(properties), "seed": seed, "examples": campaign.played,
        "refused": campaign.refused,
        "failures": [failure_data(one, campaign.profile, models) for one in failures],
    }  # fmt: skip


def failure_data(
    one: Failure, profile: str, models: Sequence[str], folder: Path | None = None
) -> dict[str, Any]:
    """A failure with its case: the shrunk one, else the conversation as it was drawn, if there is one; as a file of
    this folder, None = the current one."""
    finding = one.finding
    return {
        "property": finding.name, "rule": finding.rule, "text": finding.text, "times": one.times,
        "conversation": one.first, "step": finding.step, "causes": list(finding.causes), "shrunk": one.shrunk,
        **(one.kept or case_data(one.small or drawn(one, profile, models), profile, finding, folder)),
    }  # fmt: skip


def case_data(
    case: Case | None, profile: str, finding: Finding, folder: Path | None = None
) -> dict[str, Any]:
    """A case as it is typed, and as a file."""
    if case is None:
        return {}
    return {
        "line": repr(case.scenario(profile)), "model": case.model, "server": case.given(),
        "requests": len(case.asked), "longest": longest(case), "id": case_id(case, profile, finding, folder),
        "toml": case_toml(case, profile, finding, folder),
    }  # fmt: skip


def case_toml(case: Case, profile: str, finding: Finding, folder: Path | None = None) -> str:
    """The case as a scenario file. Its name is its id; the expectations are for `cachesim run --complete`."""
    return _toml(case, profile, finding, case_id(case, profile, finding, folder), folder)


def case_id(case: Case, profile: str, finding: Finding, folder: Path | None = None) -> str:
    """The name of its file: the conversation, and a digest of what the file says. Files of the same name say the same,
    whoever wrote them."""
    text = _toml(case, profile, finding, "", folder)
    return f"fuzz-{case.seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _toml(case: Case, profile: str, finding: Finding, name: str, folder: Path | None) -> str:
    why = f"{finding.name}: {finding.text} ({finding.rule}). Found by cachesim fuzz -p {typed(profile)}."
    head = {
        "id": name, "title": f"{finding.name} fails under {profile}", "source": ["cachesim"], "why": why,
        "engine": case.engine, "model": case.model, "profiles": [profile],
        **heading(profile, folder),
    }  # fmt: skip
    return to_toml(head, case.server, {name: n for name, n in case.words.items() if n}, case.asked)
