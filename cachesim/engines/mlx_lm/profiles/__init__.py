"""Which rules does each version of mlx-lm's server follow? The files read as a changelog, newest first."""

from __future__ import annotations

from cachesim.engines.mlx_lm.profiles.before_1072 import (
    BASE923,
    BASE1006,
    M1019,
    PR923,
    PR929,
    PR999,
    PR1006A,
    PR1006B,
    PR1006C,
    V911,
)
from cachesim.engines.mlx_lm.profiles.landed import TIMELINE
from cachesim.engines.mlx_lm.profiles.repaired import V0_32_2_REPAIRED
from cachesim.engines.mlx_lm.profiles.rule_table import Rules
from cachesim.engines.mlx_lm.profiles.since_1072 import HEAD, M1072, V0_31_3, V0_32_2

PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (
        V0_32_2_REPAIRED, V0_32_2, HEAD, V0_31_3, M1072, M1019, BASE1006, PR1006C, PR1006B, PR1006A, PR999, V911,
        BASE923, PR929, PR923,
    )
}

LINE = tuple(rules.name for rules in (BASE923, V911, BASE1006, M1019, M1072, V0_31_3, HEAD, V0_32_2))
"""The main branch in order of time, oldest first."""

BESIDE = {
    V0_32_2_REPAIRED.name: V0_32_2.name, PR923.name: BASE923.name, PR929.name: BASE923.name, PR999.name: BASE1006.name,
    PR1006A.name: BASE1006.name, PR1006B.name: BASE1006.name, PR1006C.name: BASE1006.name,
}
"""What was proposed -> what it was proposed on."""

__all__ = ["BESIDE", "LINE", "PROFILES", "TIMELINE", "Rules"]
