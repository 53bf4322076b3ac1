"""Rule tables of all llama-server versions. The files of this package read as a changelog, newest first.

A profile is a table of rules and numbers, derived from its neighbour; every difference names its source.
``head`` is frozen at commit 3f545be.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.profiles.builds_after_head import B10809, B11063, B11312, B11549, LATEST_REPAIRED
from cachesim.engines.llama_cpp.profiles.head import HEAD, PR24143_ON_HEAD, V3_24035
from cachesim.engines.llama_cpp.profiles.older_builds import (
    BEFORE_20671,
    BEFORE_MIN0,
    EVERY_8192,
    HYBRID_FIRST,
    LATE_2025,
    MINUS_ONE,
    MTMD_BROKEN,
    SPRING_2026,
    SWA_FIRST,
    TWO_ENDS,
)
from cachesim.engines.llama_cpp.profiles.pull_requests import (
    BASE_24035,
    BASE_24143,
    PR24143_ON_BASE,
    USER_TURNS,
    V1_24035,
    timeline,
)
from cachesim.engines.llama_cpp.profiles.rule_table import Rule, Rules

PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        LATEST_REPAIRED, B11549, B11312, B11063, B10809, HEAD, PR24143_ON_HEAD, V3_24035, USER_TURNS, BASE_24143,
        PR24143_ON_BASE, BASE_24035, V1_24035, MINUS_ONE, SPRING_2026, BEFORE_MIN0, BEFORE_20671, TWO_ENDS, EVERY_8192,
        MTMD_BROKEN, LATE_2025, HYBRID_FIRST, SWA_FIRST,
    )
}


LINE = tuple(rules.name for rules in (
    SWA_FIRST, HYBRID_FIRST, LATE_2025, MTMD_BROKEN, EVERY_8192, TWO_ENDS, BEFORE_20671, BEFORE_MIN0, SPRING_2026,
    MINUS_ONE, BASE_24035, BASE_24143, USER_TURNS, HEAD, B10809,
    B11063, B11312, B11549,
))  # fmt: skip
"""The master branch in order of build, oldest first."""

TIMELINE = timeline([PROFILES[name] for name in LINE])

BESIDE = {
    V1_24035.name: BASE_24035.name, PR24143_ON_BASE.name: BASE_24143.name,
    V3_24035.name: HEAD.name, PR24143_ON_HEAD.name: HEAD.name,
    LATEST_REPAIRED.name: B11549.name,
}
"""Profile of a proposed change -> profile of the build it was proposed for."""

NEWEST = B11549.name
"""The newest recorded build: ``llama_cpp@latest`` on a command line."""

RENAMED = {"llama_cpp@after-28302": B11063.name}
"""Former profile names that command lines and files may still use -> the profile that replaced them."""

NOTES = {HEAD.name: f"{HEAD.build} of 2026-08-22; newest recorded: {B11549.build}"}
"""Remarks on profiles besides their source."""

COMMITS = {
    "3f545beccee69d9975f466ec7e45fd9aacd8ba90": HEAD.name,
    **{rules.build: rules.name for rules in (B10809, B11063, B11549)},
}
"""Commit of a recording that does not name a profile -> profile."""

__all__ = [
    "BESIDE",
    "COMMITS",
    "HEAD",
    "LINE",
    "NEWEST",
    "NOTES",
    "PR24143_ON_HEAD",
    "PROFILES",
    "RENAMED",
    "TIMELINE",
    "V3_24035",
    "Rule",
    "Rules",
]  # fmt: skip
