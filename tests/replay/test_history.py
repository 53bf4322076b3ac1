"""The figures of the issue for the older rule sets, on the whole recorded set where it is present."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.choose import OLDER
from tests.replay.verdicts import decided_alike, judged_alike, verdicts
from tests.shared import TRACES, needs

# folder: rule set, files, steps, events
RECORDED = {
    "user-turns": ("b9765", 61, 395, 6516),
    "minus-one": ("b9231", 53, 369, 6090),
    "spring-2026": ("b8916", 53, 391, 6173),
    "before-min0": ("b8450", 53, 383, 4259),
    "before-20671": ("b8392", 50, 363, 4384),
    "two-ends": ("b8271", 53, 382, 4489),
    "every-8192": ("b8260", 53, 378, 3717),
    "mtmd-broken": ("b8152", 53, 401, 3800),
    "late-2025": ("b7789", 53, 373, 3511),
    "hybrid-first": ("b6685", 53, 384, 3410),
    "swa-first": ("b6160", 21, 144, 1167),
}

pytestmark = [pytest.mark.long, needs(TRACES / "llama_cpp_history")]


def files(name: str) -> list[Path]:
    return sorted((TRACES / "llama_cpp_history" / name).glob("*.json"))


def test_every_older_rule_set_has_its_figures():
    assert [f"llama_cpp_history/{name}" for name in RECORDED] == list(OLDER)


@pytest.mark.parametrize("name", RECORDED)
def test_every_step_event_and_verdict_agrees(name):
    found = [verdicts(path) for path in files(name)]
    [profile] = {one.trace.profile.partition("@")[2] for one in found}
    sums = len(found), sum(one.steps for one in found), sum(one.events for one in found)
    assert (profile, *sums) == RECORDED[name]
    assert [(one.trace.file.name, one.first) for one in found if one.trace.out or not decided_alike(one)] == []
    assert [(one.trace.file.name, one.broken) for one in found if not judged_alike(one)] == []
