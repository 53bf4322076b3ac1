"""What was found, as data: for JSON, for the eye, and as a scenario file ready to commit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.engines.rule import role_of
from cachesim.engines.rule_files import heading, typed
from cachesim.judging.failure_chain import explained
from cachesim.judging.try_command import try_command
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.search.campaign import Campaign, Failure, drawn
from cachesim.tools.search.case import DrawnConversation, longest
from cachesim.tools.search.finding import SIMULATOR, Group, PropertyFailure


def campaign_data(
    campaign: Campaign, properties: Sequence[str], seed: int, models: Sequence[str] = (), against: str = ""
) -> dict[str, Any]:
    """A campaign that is over. Its failures are in the order in which their first conversations stand. ``against``: the
    other profile under which the conversations were played, "" = none."""
    more = {} if not against else {
        "against": against, "cost": campaign.cost._asdict(),
        "mended": [_mended(one, campaign.profile, models) for one in _in_order(campaign.mended)],
    }  # fmt: skip
    return {
        "profile": campaign.profile, "properties": list(properties), "seed": seed, "examples": campaign.played,
        "refused": campaign.refused,
        "failures": [failure_data(one, campaign.profile, models) for one in _in_order(campaign.failures)],
        **more,
    }  # fmt: skip


def with_failures(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a campaign in which each failure is ``explained``."""
    found = [explained(one, data["profile"], one["step"], one["text"]) for one in data["failures"]]
    return {**data, "failures": found}


def _in_order(failures: Mapping[Group, Failure]) -> list[Failure]:
    return sorted(failures.values(), key=lambda one: (one.first, one.finding.group))


def _mended(one: Failure, profile: str, models: Sequence[str]) -> dict[str, Any]:
    """What only the other rule set has, with the first conversation as it was drawn."""
    case = drawn(one, profile, models)
    what = {} if case is None else {
        "line": repr(case.scenario(profile)), "model": case.model, "server": case.given(),
    }  # fmt: skip
    return {**finding_data(one.finding), "times": one.times, "conversation": one.first, **what}


def failure_data(
    one: Failure, profile: str, models: Sequence[str], folder: Path | None = None
) -> dict[str, Any]:
    """A failure with its case: the shrunk one, else the conversation as it was drawn, if there is one; as a file of
    this folder, None = the current one."""
    finding = one.finding
    case = one.kept or case_data(one.small or drawn(one, profile, models), profile, finding, folder)
    typed_so = {} if not case else {"command": try_command(case["line"], profile, case["model"], case["server"])}
    return {
        **finding_data(finding), "times": one.times, "conversation": one.first, "shrunk": one.shrunk,
        **case, **typed_so,
    }  # fmt: skip


def finding_data(finding: PropertyFailure) -> dict[str, Any]:
    """What was found: its kind, numbers and group, and all that in words (``rule``, ``text``)."""
    return {
        "property": finding.name, "kind": finding.kind, "numbers": dict(finding.numbers),
        "deciding": finding.deciding, "role": role_of(finding.deciding), "stored": finding.stored,
        "rule": finding.label, "text": finding.text, "step": finding.step, "causes": list(finding.causes),
    }  # fmt: skip


def group_of(data: Mapping[str, Any]) -> Group:
    """The group of a finding that is data already."""
    return data["property"], data["kind"], data["deciding"], data["stored"]


def case_data(
    case: DrawnConversation | None, profile: str, finding: PropertyFailure, folder: Path | None = None
) -> dict[str, Any]:
    """A case as it is typed, and as a file."""
    if case is None:
        return {}
    return {
        "line": repr(case.scenario(profile)), "model": case.model, "server": case.given(),
        "requests": len(case.asked), "longest": longest(case), "id": case_id(case, profile, finding, folder),
        "toml": case_toml(case, profile, finding, folder),
    }  # fmt: skip


def case_toml(case: DrawnConversation, profile: str, finding: PropertyFailure, folder: Path | None = None) -> str:
    """The case as a scenario file. Its name is its id; the expectations are for `cachesim run --complete`. Where it is
    the simulator that fails its traceback precedes, as comments."""
    return _toml(case, profile, finding, case_id(case, profile, finding, folder), folder)


def case_id(case: DrawnConversation, profile: str, finding: PropertyFailure, folder: Path | None = None) -> str:
    """The name of its file: the conversation, and a digest of what the file says. Files of the same name say the same,
    whoever wrote them."""
    text = _toml(case, profile, finding, "", folder)
    return f"fuzz-{case.seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _toml(case: DrawnConversation, profile: str, finding: PropertyFailure, name: str, folder: Path | None) -> str:
    why = f"{finding.name}: {finding.text} ({finding.label}). Found by cachesim fuzz -p {typed(profile)}."
    head = {
        "id": name, "title": f"{finding.name} fails under {profile}", "source": ["cachesim"], "why": why,
        "engine": case.engine, "model": case.model, "profiles": [profile],
        **heading(profile, folder),
    }  # fmt: skip
    text = to_toml(head, case.given(), {name: n for name, n in case.words.items() if n}, case.asked)
    return "".join(f"# {line}\n" for line in finding.causes) + text if finding.name == SIMULATOR else text
