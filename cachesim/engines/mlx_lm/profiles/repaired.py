"""What was proposed here on top of 0.32.2: changed rules under which what is stored is what an empty server would have
computed, and no request ends the generation thread.

Put any one of them back, and a scenario in scenarios/mlx_lm/repairs fails.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.mlx_lm.profiles.since_1072 import V0_32_2
from cachesim.engines.mlx_lm.rules import repaired

V0_32_2_REPAIRED = replace(
    V0_32_2,
    name="mlx_lm@0.32.2-repaired",
    source="0.32.2 with the edits that its rules name, proposed here",
    tail=repaired.tail_behind_system,
    key=repaired.key_but_last,
    key_alone=repaired.key_of_evaluated,
    start_drafting=repaired.start_always,
    draft_round=repaired.round_trimmable,
    caches=replace(V0_32_2.caches, ring_mask=repaired.mask_straight),
    inferred=("tail", "key", "key_alone", "start_drafting", "draft_round", "caches.ring_mask"),
)
