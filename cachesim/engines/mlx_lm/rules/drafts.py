"""How does a request with a draft model begin?

Source: mlx-lm mlx_lm/generate.py speculative_generate_step (321e764e to 0.32.2).
"""

from __future__ import annotations

from cachesim.engines.mlx_lm.source_files import GENERATE, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


@rule("ML-SPEC-START.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "3f9d179f"), until="#1109")
def start_any(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Returns the tokens left for the first round: what is no full prefill step. Whether the target's caches are
    trimmable is not checked."""
    left = (n_tokens - 1) % step + 1
    return Decision(left, {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-START.TRIMMABLE", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "ed1fca4c"), since="#1109")
def start_trimmable(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Returns the tokens left for the first round: one, or 0 if the caches are not trimmable (the client gets an
    error)."""
    return Decision(int(trimmable), {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-ROUND.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "321e764e to 0.32.2"))
def round_any(usual: int, room: int) -> Decision:
    """Returns how many tokens a round drafts: as many as num_draft and the budget allow, whether or not the target's
    caches can drop them again (``room``)."""
    return Decision(usual, {"usual": usual, "room": room})
