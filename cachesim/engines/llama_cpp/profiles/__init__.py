"""Rule tables of all llama-server versions. The files of this package read as a changelog, newest first.

A profile is a table of rules and numbers, derived from its neighbour; every difference names its source.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.profiles.b10587 import B10587, PR24143_ON_B10587, V3_24035
from cachesim.engines.llama_cpp.profiles.before_checkpoints import (
    B1573,
    B2781,
    B3642,
    B4094,
    B4265,
    B4579,
    B5308,
    B5340,
    B5554,
    B5630,
    B5735,
    B5833,
    B5913,
    B6110,
)
from cachesim.engines.llama_cpp.profiles.between import BETWEEN
from cachesim.engines.llama_cpp.profiles.builds_since_b10809 import (
    B10809,
    B11063,
    B11312,
    B11549,
    B11549_LORA_TRIED,
    B11549_PROPOSED,
    B11549_REPAIRED,
)
from cachesim.engines.llama_cpp.profiles.landed import timeline
from cachesim.engines.llama_cpp.profiles.late_2025 import B6740, B6914, B6998, B7400
from cachesim.engines.llama_cpp.profiles.older_builds import (
    B6160,
    B6388,
    B6685,
    B7789,
    B8152,
    B8260,
    B8271,
    B8392,
    B8450,
    B8916,
    B9063,
    B9230,
    B9231,
    DRAFT_22673,
    PR29117_ON_B9230,
)
from cachesim.engines.llama_cpp.profiles.pull_requests import (
    B9473,
    B9518,
    B9765,
    PR24143_ON_B9518,
    V1_24035,
)
from cachesim.engines.llama_cpp.profiles.rule_table import Rule, Rules

PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        B11549_REPAIRED, B11549_LORA_TRIED, B11549_PROPOSED,
        B11549, B11312, B11063, B10809, B10587, PR24143_ON_B10587, V3_24035, B9765, B9518,
        PR24143_ON_B9518, B9473, V1_24035, B9231, B9230, PR29117_ON_B9230, DRAFT_22673,
        B9063, B8916, B8450, B8392, B8271, B8260,
        B8152, B7789, B7400, B6998, B6914, B6740, B6685, B6388, B6160,
        B6110, B5913, B5833, B5735, B5630, B5554, B5340, B5308, B4579, B4265, B4094, B3642, B2781, B1573,
    )
}


LINE = tuple(rules.name for rules in (
    B1573, B2781, B3642, B4094, B4265, B4579, B5308, B5340, B5554, B5630, B5735, B5833, B5913, B6110,
    B6160, B6388, B6685, B6740, B6914, B6998, B7400, B7789, B8152, B8260, B8271, B8392, B8450, B8916,
    B9063, B9230, B9231, B9473, B9518, B9765, B10587, B10809,
    B11063, B11312, B11549,
))  # fmt: skip
"""The master branch in order of build, oldest first."""

TIMELINE = timeline([PROFILES[name] for name in LINE], BETWEEN)

BESIDE = {
    V1_24035.name: B9473.name, PR24143_ON_B9518.name: B9518.name,
    V3_24035.name: B10587.name, PR24143_ON_B10587.name: B10587.name,
    B11549_REPAIRED.name: B11549.name, B11549_PROPOSED.name: B11549.name,
    B11549_LORA_TRIED.name: B11549.name,
    PR29117_ON_B9230.name: B9230.name, DRAFT_22673.name: B9063.name,
}
"""Profile of a proposed change -> profile of the build it was proposed for."""

NEWEST = B11549.name
"""The newest recorded build: ``llama_cpp@latest`` on a command line."""

RENAMED = {
    "llama_cpp@head": "llama_cpp@b10587",
    "llama_cpp@swa-first": "llama_cpp@b6160",
    "llama_cpp@hybrid-first": "llama_cpp@b6685",
    "llama_cpp@late-2025": "llama_cpp@b7789",
    "llama_cpp@mtmd-broken": "llama_cpp@b8152",
    "llama_cpp@every-8192": "llama_cpp@b8260",
    "llama_cpp@two-ends": "llama_cpp@b8271",
    "llama_cpp@before-20671": "llama_cpp@b8392",
    "llama_cpp@before-min0": "llama_cpp@b8450",
    "llama_cpp@spring-2026": "llama_cpp@b8916",
    "llama_cpp@minus-one": "llama_cpp@b9231",
    "llama_cpp@base-24035": "llama_cpp@b9473",
    "llama_cpp@base-24143": "llama_cpp@b9518",
    "llama_cpp@user-turns": "llama_cpp@b9765",
    "llama_cpp@latest-repaired": "llama_cpp@b11549-repaired",
    "llama_cpp@pr24143-on-head": "llama_cpp@pr24143-on-b10587",
    "llama_cpp@pr24143-on-base": "llama_cpp@pr24143-on-b9518",
    "llama_cpp@after-28302": B11063.name,
}
"""Former profile names that command lines and files may still use -> the profile that replaced them."""

COMMITS = {
    "3f545beccee69d9975f466ec7e45fd9aacd8ba90": B10587.name,
    **{rules.build: rules.name for rules in (B10809, B11063, B11549)},
}
"""Commit of a recording that does not name a profile -> profile."""

__all__ = [
    "B10587",
    "BESIDE",
    "COMMITS",
    "LINE",
    "NEWEST",
    "PR24143_ON_B10587",
    "PROFILES",
    "RENAMED",
    "TIMELINE",
    "V3_24035",
    "Rule",
    "Rules",
]  # fmt: skip
