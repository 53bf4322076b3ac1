"""A job of a campaign and its result as JSON strings, for a machine that shares nothing with this one."""

from __future__ import annotations

import json

from cachesim.tools.search.against import Cost
from cachesim.tools.search.campaign import CampaignBlock, CampaignJob, Found, work
from cachesim.tools.search.finding import finding_of

PLAY = "cachesim.tools.search.remote:play"
"""The name under which a worker imports ``play``."""


def packed(job: CampaignJob) -> str:
    """The job as a JSON object."""
    return json.dumps(job._asdict())


def unpacked(text: str) -> CampaignJob:
    """The job of a JSON object. Raises KeyError, TypeError or ValueError for what is none."""
    data = json.loads(text)
    return CampaignJob(
        str(data["profile"]), tuple(map(str, data["properties"])), tuple(map(str, data["models"])), int(data["seed"]),
        int(data["first"]), int(data["stop"]), str(data["mode"]), str(data["against"]),
    )  # fmt: skip


def play(text: str) -> str:
    """Play the conversations of a job, and tell what was found."""
    block = work(unpacked(text))
    return json.dumps({
        **block._asdict(), "found": _told(block.found), "mended": _told(list(block.mended)), "cost": list(block.cost),
    })  # fmt: skip


def _told(found: Found) -> list[tuple[int, dict[str, object]]]:
    return [(number, one._asdict()) for number, one in found]


def block_of(text: str) -> CampaignBlock:
    """What a worker told. Raises KeyError, TypeError or ValueError for what is none."""
    data = json.loads(text)
    found, mended = ([(int(number), finding_of(one)) for number, one in data[name]] for name in ("found", "mended"))
    played, refused, first, stop = (int(data[name]) for name in ("played", "refused", "first", "stop"))
    return CampaignBlock(found, played, refused, first, stop, mended, Cost(*map(int, data["cost"])))
