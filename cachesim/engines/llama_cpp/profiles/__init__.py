"""Rule tables of all llama-server versions. The files of this package read as a changelog, newest first.

A profile is a table of rules and numbers, derived from its neighbour; every difference names its source. A rule set is
known as soon as a module of this package holds it in a public variable.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.profiles import (
    b10587,
    before_checkpoints,
    builds_since_b10809,
    late_2025,
    older_builds,
    pull_requests,
)
from cachesim.engines.llama_cpp.profiles.b10587 import B10587, PR24143_ON_B10587, V3_24035
from cachesim.engines.llama_cpp.profiles.between import BETWEEN
from cachesim.engines.llama_cpp.profiles.builds_since_b10809 import (
    B11549,
    B11549_LORA_TRIED,
    B11549_PROPOSED,
    B11549_REPAIRED,
)
from cachesim.engines.llama_cpp.profiles.landed import build_number, names_in_recordings, timeline
from cachesim.engines.llama_cpp.profiles.older_builds import B8392, B9063, B9230, DRAFT_22673, PR29117_ON_B9230
from cachesim.engines.llama_cpp.profiles.pull_requests import B9473, B9518, PR24143_ON_B9518, V1_24035
from cachesim.engines.llama_cpp.profiles.rule_table import Rule, Rules
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

_FOUND = rule_sets_in(
    Rules, vars(b10587), vars(builds_since_b10809), vars(pull_requests), vars(older_builds), vars(late_2025),
    vars(before_checkpoints),
)  # fmt: skip

BESIDE = {
    V1_24035.name: B9473.name, PR24143_ON_B9518.name: B9518.name,
    V3_24035.name: B10587.name, PR24143_ON_B10587.name: B10587.name,
    B11549_REPAIRED.name: B11549.name, B11549_PROPOSED.name: B11549.name,
    B11549_LORA_TRIED.name: B11549.name,
    PR29117_ON_B9230.name: B9230.name, DRAFT_22673.name: B9063.name,
}
"""Profile of a proposed change -> profile of the build it was proposed for."""

LINE = tuple(sorted((name for name in _FOUND if name not in BESIDE), key=lambda name: build_number(_FOUND[name])))
"""The master branch in order of build, oldest first."""

PROFILES = newest_first(_FOUND, LINE, BESIDE)
"""All rule sets by name."""

TIMELINE = timeline([PROFILES[name] for name in LINE], BETWEEN)

NEWEST = LINE[-1]
"""The newest build: ``llama_cpp@latest`` on a command line."""

COMMITS = {
    **{name: rules.name for rules in (PROFILES[profile] for profile in LINE) for name in names_in_recordings(rules)},
    "3f545be+pr24143": PR24143_ON_B10587.name,
    "8cc2d8126~1": B8392.name,
}
"""Commit of a recording -> profile."""

__all__ = [
    "B10587",
    "BESIDE",
    "COMMITS",
    "LINE",
    "NEWEST",
    "PR24143_ON_B10587",
    "PROFILES",
    "TIMELINE",
    "V3_24035",
    "Rule",
    "Rules",
]  # fmt: skip
