"""Rule tables of all llama-server versions. The files of this package read as a changelog, newest first.

A profile is a table of rules and numbers, derived from its neighbour; every difference names its source. A rule set is
known as soon as a module of this package holds it in a public variable.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.history import BESIDE, LINE, NEWEST
from cachesim.engines.llama_cpp.profiles import (
    b10587,
    before_checkpoints,
    builds_since_b10809,
    late_2025,
    older_builds,
    pull_requests,
)
from cachesim.engines.llama_cpp.profiles.b10587 import B10587, PR24143_ON_B10587, V3_24035
from cachesim.engines.llama_cpp.profiles.rule_table import Rule, Rules
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

_FOUND = rule_sets_in(
    Rules, vars(b10587), vars(builds_since_b10809), vars(pull_requests), vars(older_builds), vars(late_2025),
    vars(before_checkpoints),
)  # fmt: skip

PROFILES = newest_first(_FOUND, LINE, BESIDE)
"""All rule sets by name."""

__all__ = [
    "B10587",
    "BESIDE",
    "LINE",
    "NEWEST",
    "PR24143_ON_B10587",
    "PROFILES",
    "V3_24035",
    "Rule",
    "Rules",
]  # fmt: skip
