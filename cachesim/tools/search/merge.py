"""Merging of campaigns of a search that ran in several places.

The result of a conversation depends only on its integer. A file whose conversations all occur in other files is
therefore skipped. Files that overlap partly cannot be merged: their counts are known only for all of their
conversations together, and the common conversations would count twice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import real_path
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure, gaps, joined
from cachesim.tools.search.campaign_file import StoredCampaign, read_campaign
from cachesim.tools.search.property_failure import Group

Spans = Sequence[tuple[int, int]]


class CampaignSource(NamedTuple):
    """A campaign and its file."""

    file: Path
    kept: StoredCampaign


class MergedCampaign(NamedTuple):
    """A search with the findings of all its files. ``left_out``: files that add nothing."""

    plan: CampaignPlan
    campaign: Campaign
    files: Sequence[Path]
    left_out: Sequence[Path]


def campaigns_in(folders: Iterable[Path]) -> list[CampaignSource]:
    """Return the campaigns in these folders, each file once. Raise BadInput for a folder without campaigns and for an
    invalid campaign file."""
    found: dict[str, CampaignSource] = {}
    for folder in folders:
        files = sorted(folder.glob("campaign-*.json"))
        if not files:
            raise BadInput("the folder contains neither a campaign nor a workload", file=str(folder),
                           hint="create one with fuzz --out FOLDER or workload --out FOLDER")  # fmt: skip
        for file in files:
            found.setdefault(real_path(file), CampaignSource(file, read_campaign(file)))
    return list(found.values())


def merged(sources: Sequence[CampaignSource]) -> list[MergedCampaign]:
    """Merge the campaigns of each search, sorted by plan. Raise BadInput for files that overlap partly and for files
    that were made with different rule files."""
    by_plan: dict[CampaignPlan, list[CampaignSource]] = {}
    for one in sources:
        by_plan.setdefault(one.kept.plan, []).append(one)
    return [_of_one(plan, by_plan[plan]) for plan in sorted(by_plan)]


def _of_one(plan: CampaignPlan, sources: list[CampaignSource]) -> MergedCampaign:
    whole = Campaign(plan.profile)
    taken: list[CampaignSource] = []
    left: list[CampaignSource] = []
    for one in sorted(sources, key=lambda one: (-_size(one.kept.campaign.done), str(one.file))):
        if one.kept.rules != sources[0].kept.rules:
            raise BadInput(f"its rule files differ from those of {sources[0].file}", file=str(one.file))
        if _missing(one.kept.campaign.done, whole.done):
            _refuse_overlap(one, taken)
            add(whole, one.kept.campaign)
            taken.append(one)
        else:
            left.append(one)
    for one in left:
        _adopt(whole, one.kept.campaign)
    return MergedCampaign(plan, whole, [one.file for one in taken], [one.file for one in left])


def add(whole: Campaign, part: Campaign) -> None:
    """Add a campaign of other conversations of the same search."""
    whole.played += part.played
    whole.refused += part.refused
    whole.done = joined([*whole.done, *part.done])
    whole.cost = whole.cost.plus(part.cost)
    _add(whole.failures, part.failures)
    _add(whole.mended, part.mended)


def _add(whole: dict[Group, Failure], part: Mapping[Group, Failure]) -> None:
    for group, one in part.items():
        known = whole.get(group)
        first = one if known is None or one.first < known.first else known
        whole[group] = replace(first, times=one.times + (known.times if known else 0))


def _adopt(whole: Campaign, same: Campaign) -> None:
    """Take over shrunk cases from a file that adds nothing else, so that they are not shrunk again."""
    for group, one in same.failures.items():
        known = whole.failures.get(group)
        if known is not None and known.first == one.first and not known.is_shrunk:
            known.kept = one.kept


def _refuse_overlap(source: CampaignSource, taken: Iterable[CampaignSource]) -> None:
    for previous in taken:
        both = _size(source.kept.campaign.done) + _size(previous.kept.campaign.done)
        if _size(joined([*source.kept.campaign.done, *previous.kept.campaign.done])) < both:
            raise BadInput(f"overlaps partly with {previous.file}",
                           file=str(source.file), hint="parts of one --shard N do not overlap")  # fmt: skip


def _missing(spans: Spans, among: Spans) -> bool:
    """True if a part of the spans is not covered by the sorted spans ``among``. An empty campaign adds nothing."""
    return any(gaps(among, first, stop) for first, stop in spans)


def _size(spans: Spans) -> int:
    return sum(stop - first for first, stop in spans)
