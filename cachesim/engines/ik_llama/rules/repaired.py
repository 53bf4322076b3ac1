"""Repairs that make 8337e4cd3 answer as on an empty server. Each rule is a minimal edit of the source; the rule that it
replaces has an equal id up to the last dot.

Proposed here: no version contains them. ``note`` of a source describes the edit: file, function, change.
"""

from __future__ import annotations

from cachesim.engines.ik_llama.source_files import CONTEXT, LLAMA, TASK, ik_llama
from cachesim.engines.rule import Decision, Role, rule

DELTA_NET = "src/llama-delta-net.cpp"
MAIN = "8337e4cd3"


# [New in ik_llama@main-repaired]
@rule("IK-REFUSED.LEAVES", Role.FAIL,
      ik_llama(CONTEXT, "batch_pending_prompt", MAIN,
               note="proposed here: behind the error of a prompt that is too long, slot.release() before `continue`"))
def refused_leaves(asked: int, n_ctx: int) -> Decision:
    """Return False: a prompt that is too long is not evaluated, and the slot is released unchanged."""
    return Decision(False, {"asked": asked, "n_ctx": n_ctx})


# [New in ik_llama@main-repaired]
@rule("IK-PROMPT-CUT.NONE", Role.SHIFT,
      ik_llama(CONTEXT, "context_shift_prompt", MAIN,
               note="proposed here: discard_n_kv_and_cache_tokens is not called for a prompt that is cut"))
def prompt_cut_none(found: int) -> Decision:
    """Return 0: the cache keeps its tokens when a prompt is shortened, and the common prefix with the rest of the
    prompt is reused."""
    return Decision(0, {"found": found})


# [New in ik_llama@main-repaired]
@rule("IK-SHIFT-LIST.ALL", Role.SHIFT,
      ik_llama(CONTEXT, "discard_n_kv_and_cache_tokens", MAIN,
               note="proposed here: cache_tokens are discarded whether or not the request caches its prompt"))
def shift_list_all(cache_prompt: bool) -> Decision:
    """Return True: a context shift always removes the discarded tokens from the slot's list."""
    return Decision(True, {"cache_prompt": cache_prompt})


# [New in ik_llama@main-repaired]
@rule("IK-DECODE-AGAIN.REST", Role.FAIL,
      ik_llama(CONTEXT, "process_batch_tokens", MAIN,
               note="proposed here: llama_decode reports the tokens that it has evaluated, and the next attempt begins "
                    "behind them"))
def again_from_rest(evaluated: int) -> Decision:
    """Return the number of tokens that the failed attempt evaluated: the next attempt begins after them."""
    return Decision(evaluated, {"evaluated": evaluated})


# [New in ik_llama@main-repaired]
@rule("IK-SPEC-STEPS.POSITION", Role.DRAFT,
      ik_llama(DELTA_NET, "save_per_step_states", MAIN,
               note="proposed here: rows are kept by sequence and position in the round, of every micro-batch of it"))
def steps_by_position(n: int, capacity: int) -> Decision:
    """Save the row after each token of a draft by its sequence and position. Return how rows are found again."""
    return Decision("position", {"n": n, "capacity": capacity})


# [New in ik_llama@main-repaired]
@rule("IK-SPEC-ROW.OWN", Role.DRAFT,
      ik_llama(LLAMA, "llama_spec_ckpt_restore", MAIN,
               note="proposed here: the kept row is copied into the row of its sequence, and no cell is relabelled"))
def row_own(seq: int) -> Decision:
    """Restore the saved row into the row of the sequence that drafted. Return the row, and whether the cell of that
    index gets the position."""
    return Decision((seq, False), {"seq": seq})


# [New in ik_llama@main-repaired]
@rule("IK-CKPT-CELLS.KEPT", Role.MEMORY,
      ik_llama(LLAMA, "llama_data_read::read_kv_cache", MAIN,
               note="proposed here: a state without K/V rows is read without looking for cells; those of the sequence "
                    "behind its last position are removed"))
def cells_kept(partial: bool) -> Decision:
    """Return False for a saved state without K/V rows: it keeps the cells of its sequence, up to its last position."""
    return Decision(not partial, {"partial": partial})


# [New in ik_llama@main-repaired]
@rule("IK-PC-FAILED.CLEARS", Role.FAIL,
      ik_llama(TASK, "server_prompt_cache::load", MAIN,
               note="proposed here: the slot's tokens and checkpoints are cleared where the state was not restored"))
def failed_clears(held: int) -> Decision:
    """Return True: if an entry cannot be loaded, the slot's tokens are dropped, as its memory is empty."""
    return Decision(True, {"held": held})


# [New in ik_llama@main-repaired]
@rule("IK-SLOT-SAVE.ALWAYS", Role.WRITE_FILE,
      ik_llama(CONTEXT, "slot save", MAIN, note="proposed here: the side file is written where there are none, too"))
def save_always(ckpts: int) -> Decision:
    """Return True: a side file is written even without checkpoints, so that a side file of an earlier conversation is
    replaced."""
    return Decision(True, {"ckpts": ckpts})
