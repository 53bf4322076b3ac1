"""Rule sets of the versions of ik_llama.cpp's server. The files read as a changelog, newest first.

Each profile is derived from its neighbour and named after the change from which on it applies; ``pr...`` is a proposal.
A rule set is known as soon as a module of this package holds it in a public variable; ``history`` has its place.
"""

from __future__ import annotations

from cachesim.engines.ik_llama.history import BESIDE, LINE
from cachesim.engines.ik_llama.profiles import before_1295, before_1889_base, main, since_1889_base
from cachesim.engines.ik_llama.profiles.rule_table import Rule, Rules
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

_FOUND = rule_sets_in(Rules, vars(main), vars(since_1889_base), vars(before_1889_base), vars(before_1295))

PROFILES = newest_first(_FOUND, LINE, BESIDE)
"""All rule sets by name."""

__all__ = ["BESIDE", "LINE", "PROFILES", "Rule", "Rules"]
