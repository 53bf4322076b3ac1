"""Rule sets of the versions of ik_llama.cpp's server. The files read as a changelog, newest first.

Each profile is derived from its neighbour and named after the change from which on it applies; ``pr...`` is a proposal.
"""

from __future__ import annotations

from cachesim.engines.ik_llama.profiles.before_1295 import (
    AFTER_645,
    AFTER_954,
    AFTER_973,
    AFTER_1008,
    AFTER_1079,
    AFTER_1134,
)
from cachesim.engines.ik_llama.profiles.before_1889_base import (
    AFTER_1295,
    AFTER_1310,
    AFTER_1346,
    AFTER_1398,
    AFTER_1673,
    AFTER_1679,
    AFTER_1698,
    AFTER_1716,
    AFTER_1743,
)
from cachesim.engines.ik_llama.profiles.landed import TIMELINE
from cachesim.engines.ik_llama.profiles.main import MAIN, MAIN_REPAIRED
from cachesim.engines.ik_llama.profiles.rule_table import Rule, Rules
from cachesim.engines.ik_llama.profiles.since_1889_base import (
    AFTER_1949,
    AFTER_1992,
    AFTER_2020,
    AFTER_2105,
    AFTER_2195,
    AFTER_2205,
    AFTER_2378,
    AFTER_2441,
    AFTER_2491,
    BASE_1889,
    DRAFT2_2195,
    DRAFT_2195,
    PR1877,
    PR1888,
    PR1889,
)

PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        MAIN_REPAIRED, AFTER_2491, AFTER_2441, AFTER_2378, MAIN,
        AFTER_2205, AFTER_2195, DRAFT2_2195, DRAFT_2195, AFTER_2105, AFTER_2020, AFTER_1992, AFTER_1949,
        BASE_1889,
        PR1889, PR1888, PR1877,
        AFTER_1743, AFTER_1716, AFTER_1698, AFTER_1679, AFTER_1673, AFTER_1398, AFTER_1346, AFTER_1310, AFTER_1295,
        AFTER_1134, AFTER_1079, AFTER_1008, AFTER_973, AFTER_954, AFTER_645,
    )
}

BESIDE = {MAIN_REPAIRED.name: MAIN.name, AFTER_2378.name: MAIN.name, AFTER_2441.name: MAIN.name,
          **dict.fromkeys((DRAFT2_2195.name, DRAFT_2195.name), AFTER_2105.name),
          **{rules.name: BASE_1889.name for rules in (PR1889, PR1888, PR1877)}}
"""Proposed rule set -> the rule set that it changes."""

LINE = tuple(name for name in reversed(PROFILES) if name not in BESIDE)
"""Main-branch rule sets, oldest first."""

COMMITS = {"8337e4cd3861406fc04e0854b1409cd1b027fbc9": MAIN.name}
"""Commit of recordings without profile -> profile."""

__all__ = ["BESIDE", "COMMITS", "LINE", "MAIN", "PROFILES", "TIMELINE", "Rule", "Rules"]
