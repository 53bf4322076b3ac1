"""How does a request with a draft model begin?

Source: mlx-lm mlx_lm/generate.py speculative_generate_step (321e764e to 0.32.2).
"""

from __future__ import annotations

from cachesim.engines.mlx_lm.source_files import GENERATE, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


@rule("ML-SPEC-START.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "3f9d179f"), until="#1109")
def start_any(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Whatever the target's caches can do. Value: tokens that are left for the first round: what is no full step."""
    left = (n_tokens - 1) % step + 1
    return Decision(left, {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-START.TRIMMABLE", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "ed1fca4c"), since="#1109")
def start_trimmable(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Only with caches that can be trimmed, else value 0: the client gets an error. One token is left."""
    return Decision(int(trimmable), {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-ROUND.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "321e764e to 0.32.2"))
def round_any(usual: int, room: int) -> Decision:
    """A round drafts as many tokens as are asked for and the budget has left, whether or not the target's caches could
    give them up again (``room``). Value: their number."""
    return Decision(usual, {"usual": usual, "room": room})
