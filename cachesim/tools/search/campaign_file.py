"""State file of a campaign: the search, its progress, its findings. The file is untrusted input: invalid data is
rejected.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import read_json
from cachesim.tools.search.campaign import SPREAD, Campaign, CampaignPlan, Failure, joined
from cachesim.tools.search.property_failure import Group, parse_finding
from cachesim.tools.search.run_properties import CampaignCost

FORM = 3                # format version; 2: findings are kind and numbers; 3: lists the files that it owns
KEPT = {"line": str, "model": str, "server": dict, "requests": int, "longest": int, "id": str, "toml": str}
"""Fields of a shrunk case that a later run reports again."""


class StoredCampaign(NamedTuple):
    """Content of the state file. ``rules``: digests of the rule files that were searched. ``files``: names of the
    written scenario files, without suffix. ``owned``: names of files that may exist."""

    plan: CampaignPlan
    rules: str
    campaign: Campaign
    files: Mapping[Group, str]
    owned: Sequence[str]


def packed(plan: CampaignPlan, campaign: Campaign, files: Mapping[Group, str], owned: Iterable[str] = ()) -> bytes:
    """Return the content of the state file."""
    failures = [{**_packed(one), "file": files.get(group), "kept": one.kept}
                for group, one in campaign.failures.items()]  # fmt: skip
    return json.dumps({
        "cachesim": code_version(), "form": FORM, "plan": list(plan), "rules": plan.rules, "owned": sorted(owned),
        "played": campaign.played, "refused": campaign.refused, "done": campaign.done, "failures": failures,
        "mended": [_packed(one) for one in campaign.mended.values()], "cost": campaign.cost,
    }, indent=1).encode()  # fmt: skip


def _packed(failure: Failure) -> dict[str, Any]:
    return {"first": failure.first, "times": failure.times, "finding": failure.finding._asdict()}


def read_campaign(file: Path) -> StoredCampaign:
    """Read the state file of a campaign, written by the same code. Raise BadInput if it is invalid."""
    try:
        data = read_json(file, "campaign")
        if data["cachesim"] != code_version():
            raise ValueError("written by other code of cachesim")
        if data.get("form") != FORM:
            raise ValueError("outdated format, start a new campaign")
        return _unpacked(data)
    except BadInput as bad:
        raise BadInput(f"not a campaign: {bad.cause}", file=str(file), line=bad.line) from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BadInput(f"not a campaign: {str(error)[:80]}", file=str(file)) from None


def _unpacked(data: Mapping[str, Any]) -> StoredCampaign:
    plan, done = _plan(*data["plan"]), [_span(*span) for span in data["done"]]
    campaign, files = Campaign(plan.profile, {}, int(data["played"]), int(data["refused"]), joined(done)), {}
    for one in data["failures"]:
        finding = parse_finding(one["finding"])
        kept = None if one["kept"] is None else {name: _is(kind, one["kept"][name]) for name, kind in KEPT.items()}
        if kept is not None:
            _check_name(kept["id"])
        campaign.failures[finding.group] = Failure(int(one["first"]), finding, int(one["times"]), kept=kept)
        if one["file"] is not None:
            _check_name(one["file"])
            files[finding.group] = one["file"]
    for one in data["mended"]:
        finding = parse_finding(one["finding"])
        campaign.mended[finding.group] = Failure(int(one["first"]), finding, int(one["times"]))
    campaign.cost = CampaignCost(*map(int, data["cost"]))
    for name in data["owned"]:
        _check_name(name)
    return StoredCampaign(plan, str(data["rules"]), campaign, files, data["owned"])


def _plan(
    profile: object, properties: list[object], models: list[object], mode: object, seed: object, against: object
) -> CampaignPlan:
    names = tuple(_is(str, one) for one in properties), tuple(_is(str, one) for one in models)
    return CampaignPlan(_is(str, profile), *names, _is(str, mode), _is(int, seed), _is(str, against))


def _span(first: object, stop: object) -> tuple[int, int]:
    start, end = _is(int, first), _is(int, stop)
    if not 0 <= start <= end <= SPREAD:
        raise ValueError(f"conversations {start} to {end}")
    return start, end


def _check_name(name: object) -> None:
    if not (isinstance(name, str) and re.fullmatch(r"fuzz-\d+-[0-9a-f]{8}", name)):
        raise ValueError("unexpected file name")


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
    return value
