"""Proposed rules under which 0.32.2 answers as on an empty server and its thread survives.

Each rule is a single edit of the source, as small as possible. The rule that it replaces has the same id up to the last
dot. The rules were proposed here; no release contains them. ``note`` of a source gives the edit: file, function,
change.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.rules.keys import ConversationKey
from cachesim.engines.mlx_lm.rules.segments import find_tail
from cachesim.engines.mlx_lm.source_files import CACHE, GENERATE, SERVER, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-SEG-TAIL.BEHIND-SYSTEM", Role.PROMPT,
      mlx_lm(SERVER, "_tokenize", "0.32.2",
             note="proposed here: the think tokens are looked for from sys_end on, never before it"))
def tail_behind_system(prompt: Tokens, sys_end: int) -> Decision:
    """Return the start of the tail as ML-SEG-TAIL.SEQUENCE does, but never in the system segment, so that segments do
    not overlap."""
    return find_tail(prompt, sys_end, max(len(prompt) - 11, sys_end))


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-KEY.BUT-LAST", Role.PLAN,
      mlx_lm(SERVER, "_generate, _serve_single", "0.32.2",
             note="proposed here: fetch_nearest_cache is asked for prompt[:-1]; the last token is added to the rest"))
def key_but_last(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Look up the prompt without its last token, so that a token is always left to evaluate; prompt and answer are
    stored."""
    return Decision(ConversationKey(prompt[:-1]), {"n_tokens": len(prompt)})


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-KEY-ALONE.EVALUATED", Role.PLAN,
      mlx_lm(SERVER, "_serve_single", "0.32.2",
             note="proposed here: the key is cut to the tokens that were evaluated before insert_cache is called"))
def key_of_evaluated(held: int, evaluated: int) -> Decision:
    """Return how many tokens make the key of a conversation that was served alone: those that were evaluated."""
    return Decision(min(held, evaluated), {"held": held, "evaluated": evaluated})


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-SPEC-START.ALWAYS", Role.DRAFT,
      mlx_lm(GENERATE, "speculative_generate_step", "0.32.2",
             note="proposed here: the check of trimmable caches at the start goes; rounds look at them"))
def start_always(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Return the tokens left for the first round: 1, whether or not the caches are trimmable; rounds draft only what
    can be taken back."""
    return Decision(1, {"trimmable": trimmable, "n_tokens": n_tokens})


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-SPEC-ROUND.TRIMMABLE", Role.DRAFT,
      mlx_lm(GENERATE, "speculative_generate_step", "0.32.2",
             note="proposed here: num_draft is at most what the caches hold and can still give up afterwards: 0 for "
                  "recurrent layers, and for a ring that would be full"))
def round_trimmable(usual: int, room: int) -> Decision:
    """Return how many tokens a round drafts: no more than the target's caches can drop again."""
    return Decision(min(usual, room), {"usual": usual, "room": room})


# [New in mlx_lm@0.32.2-repaired]
@rule("ML-RING-MASK.straight", Role.MEMORY,
      mlx_lm(CACHE, "BatchRotatingKVCache.make_mask", "0.32.2",
             note="proposed here: for several tokens and a rotated ring, make_mask counts from the buffer's width"))
def mask_straight(idx: int, columns: int, rotated: bool, new: int) -> int:
    """Return the write position that a batch's mask is made from: the position at which the tokens will be stored,
    which is after the last column if the ring is straightened first."""
    return columns if rotated and new > 1 else idx
