"""Rule sets of the versions of ik_llama.cpp's server. The files read as a changelog, newest first.

Each profile is derived from its neighbour and named after the change from which on it applies; ``pr...`` is a proposal.
A rule set is known as soon as a module of this package holds it in a public variable; ``landed`` has its place.
"""

from __future__ import annotations

from cachesim.engines.ik_llama.profiles import before_1295, before_1889_base, main, since_1889_base
from cachesim.engines.ik_llama.profiles.landed import TIMELINE
from cachesim.engines.ik_llama.profiles.main import MAIN, MAIN_REPAIRED
from cachesim.engines.ik_llama.profiles.rule_table import Rule, Rules
from cachesim.engines.ik_llama.profiles.since_1889_base import (
    AFTER_2105,
    AFTER_2378,
    AFTER_2441,
    BASE_1889,
    DRAFT2_2195,
    DRAFT_2195,
    PR1877,
    PR1888,
    PR1889,
)
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

_FOUND = rule_sets_in(Rules, vars(main), vars(since_1889_base), vars(before_1889_base), vars(before_1295))

BESIDE = {MAIN_REPAIRED.name: MAIN.name, AFTER_2378.name: MAIN.name, AFTER_2441.name: MAIN.name,
          **dict.fromkeys((DRAFT2_2195.name, DRAFT_2195.name), AFTER_2105.name),
          **{rules.name: BASE_1889.name for rules in (PR1889, PR1888, PR1877)}}
"""Proposed rule set -> the rule set that it changes."""

LINE = tuple(TIMELINE.own)
"""Main-branch rule sets, oldest first."""

PROFILES = newest_first(_FOUND, LINE, BESIDE)
"""All rule sets by name."""

COMMITS = {"8337e4cd3861406fc04e0854b1409cd1b027fbc9": MAIN.name}
"""Commit of recordings without profile -> profile."""

__all__ = ["BESIDE", "COMMITS", "LINE", "MAIN", "PROFILES", "TIMELINE", "Rule", "Rules"]
