"""Campaigns of one search that were played in several places become one, as if they had been played in one.

A conversation is an integer and its result depends on nothing else, so a file that holds only conversations of other
files adds nothing and is left out. Two files that overlap in part cannot be added up: what each of them found is known
for all of its conversations together, and those of both would count twice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure, gaps, joined
from cachesim.tools.search.campaign_file import StoredCampaign, read_campaign
from cachesim.tools.search.property_failure import Group

Spans = Sequence[tuple[int, int]]


class CampaignSource(NamedTuple):
    """A campaign in a file."""

    file: Path
    kept: StoredCampaign


class MergedCampaign(NamedTuple):
    """A search, what was found in all files of it, and the files; ``left_out``: those that add nothing."""

    plan: CampaignPlan
    campaign: Campaign
    files: Sequence[Path]
    left_out: Sequence[Path]


def campaigns_in(folders: Iterable[Path]) -> list[CampaignSource]:
    """The campaigns in these folders, each file once. Raises BadInput for a folder without one, and for a file that is
    called like one and is none."""
    found: dict[Path, CampaignSource] = {}
    for folder in folders:
        if not folder.is_dir():
            raise BadInput("not a folder", file=str(folder))
        files = sorted(folder.glob("campaign-*.json"))
        if not files:
            raise BadInput("no campaign and no workload is in this folder", file=str(folder),
                           hint="fuzz --out FOLDER and workload --out FOLDER make them")  # fmt: skip
        for file in files:
            found.setdefault(file.resolve(), CampaignSource(file, read_campaign(file)))
    return list(found.values())


def merged(sources: Sequence[CampaignSource]) -> list[MergedCampaign]:
    """One campaign for each search, in the order of their names. Raises BadInput for files that overlap in part, and
    for two that were made with different files of rules."""
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
            raise BadInput(f"was made with other rules than {sources[0].file}", file=str(one.file))
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
    """What was shrunk in a file that adds nothing need not be shrunk again."""
    for group, one in same.failures.items():
        known = whole.failures.get(group)
        if known is not None and known.first == one.first and not known.shrunk:
            known.kept = one.kept


def _refuse_overlap(one: CampaignSource, taken: Iterable[CampaignSource]) -> None:
    for other in taken:
        both = _size(one.kept.campaign.done) + _size(other.kept.campaign.done)
        if _size(joined([*one.kept.campaign.done, *other.kept.campaign.done])) < both:
            raise BadInput(f"some of its conversations are in {other.file} too, others are not",
                           file=str(one.file), hint="parts of one --shard N do not overlap")  # fmt: skip


def _missing(spans: Spans, among: Spans) -> bool:
    """Is something of the spans not among the others, which are in order? An empty campaign adds nothing."""
    return any(gaps(among, first, stop) for first, stop in spans)


def _size(spans: Spans) -> int:
    return sum(stop - first for first, stop in spans)
