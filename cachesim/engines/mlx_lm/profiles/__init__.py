"""Rules of each version of mlx-lm's server. The files read as a changelog, newest first.

A rule set is known as soon as a module of this package holds it in a public variable; ``history`` has its place.
"""

from __future__ import annotations

from cachesim.engines.mlx_lm.history import BESIDE, LINE
from cachesim.engines.mlx_lm.profiles import before_910, before_1072, since_1072
from cachesim.engines.mlx_lm.profiles.rule_table import Rules
from cachesim.engines.shared.rule_set import newest_first, rule_sets_in

PROFILES = newest_first(
    rule_sets_in(Rules, vars(since_1072), vars(before_1072), vars(before_910)), LINE, BESIDE,
)  # fmt: skip
"""All rule sets by name."""

__all__ = ["BESIDE", "LINE", "PROFILES", "Rules"]
