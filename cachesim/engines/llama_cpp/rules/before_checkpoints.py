"""Prompt start, lists of tokens, context shift and slot choice in builds before b6160, and a few until b7542.

Source: llama.cpp examples/server/server.cpp, later tools/server/server.cpp.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from cachesim.base.tokens import common_substring
from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.rules.checkpoint_facts import PromptInputs
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed
from cachesim.engines.llama_cpp.rules.context_shift import SPARE, MovedBlock, Shift
from cachesim.engines.llama_cpp.rules.prompt_lifecycle import stop_word
from cachesim.engines.llama_cpp.rules.slot_selection import ANY_SLOT, F32, SlotChoice, SlotFacts
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

OLD = "examples/server/server.cpp"


# --- the prompt ------------------------------------------------------------------------------------------------------

class PromptCut(NamedTuple):
    """Tokens that a prompt keeps at its start, and tokens after them that it loses."""

    keep: int
    lose: int


# [Gone in llama_cpp@b6740]
@rule("LC-PROMPT-FIT.CUT", Role.PROMPT, llama_cpp(SERVER, 'update_slots "input truncated"', "b6170"),
      until="#16391 (b6723)")
def cut_long(n_tokens: int, n_ctx: int, n_keep: int, shift: bool) -> Decision:
    """Shorten a prompt that leaves no room for a token, if a context may be shifted: it keeps n_keep tokens and loses
    the next ones, in blocks of half the rest of the context. Return None if the prompt fits, the text of the error if
    a context may not be shifted."""
    because = {"n_tokens": n_tokens, "n_ctx": n_ctx, "n_keep": n_keep}
    if n_tokens < n_ctx:
        return Decision(None, because)
    if not shift:
        text = "the request exceeds the available context size. try increasing the context size or enable context shift"
        return Decision(text, because)
    keep = min(n_ctx - SPARE, n_tokens if n_keep < 0 else n_keep)
    block = (n_ctx - keep) // 2
    return Decision(PromptCut(keep, (n_tokens - keep - block) // block * block), because)


LIST_ASSERTS = -1        # value of LC-LIST: the server aborts


# [Gone in llama_cpp@b5554]
@rule("LC-LIST.ASSERTS", Role.MEMORY,
      llama_cpp(pull=13533, note="issue #13484"), since="#12898 (b5331)", until="#13533 (b5379)")
def list_asserts(cache_prompt: bool, before: int) -> Decision:
    """Return 0 with cache_prompt false: the list of the slot's tokens stays empty, although its cells fill. A second
    batch of the prompt (``before`` tokens precede it) aborts the server: return -1. None = the list is kept. Read in
    the change and its issue, not run."""
    value = None if cache_prompt else LIST_ASSERTS if before else 0
    return Decision(value, {"cache_prompt": cache_prompt, "before": before})


# [Gone in llama_cpp@b5340]
@rule("LC-LIST.ZEROS", Role.MEMORY, llama_cpp(OLD, 'update_slots "cache_tokens.resize"', "b4579"),
      until="#12898 (b5331)")
def list_zeros(cache_prompt: bool, before: int) -> Decision:
    """Return, with cache_prompt false, how many tokens with the number 0 the list of the slot's tokens then has: as
    many as its last batch found before itself. None = the list is kept."""
    return Decision(None if cache_prompt else before, {"cache_prompt": cache_prompt, "before": before})


# [Gone in llama_cpp@b7400]
@rule("LC-FAIL.KEEP", Role.FAIL,
      llama_cpp(SERVER, 'update_slots "send_error"', "b6170"), until="#17267 (b7078)")
def failure_keeps(busy: int) -> Decision:
    """Return False: if a batch cannot be evaluated, the running slots keep their lists of tokens, whose last tokens
    are not in the memory."""
    return Decision(False, {"busy": busy})


# --- windows ---------------------------------------------------------------------------------------------------------

# [Gone in llama_cpp@b5735]
@rule("LC-CKPT-NEED.TH-NEG", Role.NEED, llama_cpp(pull=14163), since="#13833 (b5554)", until="#14163 (b5653)")
def need_below_zero(ask: PromptInputs) -> Decision:
    """Re-evaluates a prompt that removes tokens if pos_min > n_past - n_swa. Without a lower bound of 0 this holds for
    every conversation shorter than the window. Read in the change, not run."""
    thold = ask.pos_next - ask.n_swa
    return Decision(CheckpointNeed(thold, 0 < ask.n_past < ask.held and ask.pos_min > thold),
                    {"thold": thold, "n_past": ask.n_past, "pos_min": ask.pos_min})


# [Gone in llama_cpp@b6160]
@rule("LC-CKPT-ON.NEVER", Role.ENABLE, llama_cpp(SERVER, "update_slots", "b5833"), until="#15293 (b6160)")
def never_on(max_checkpoints: int, exact: bool, window: int) -> Decision:
    """Return False: the server has no checkpoints."""
    return Decision(False, {"max": 0})


# --- shifted positions -----------------------------------------------------------------------------------------------

# [Gone in llama_cpp@b6998]
@rule("LC-SHIFT-WHEN.BUSY", Role.SHIFT,
      llama_cpp(SERVER, 'update_slots "is_processing" "n_ctx"', "b6914", pull=17000),
      since="#16818 (b6890)", until="#17000 (b6947)")
def shift_busy(generating: bool) -> Decision:
    """Return True: a slot that is about to start its prompt is shifted too if the conversation that it still holds
    fills the context."""
    return Decision(True, {"generating": generating})


def _shift(held: int, n_prompt: int, n_keep: int, discard: int, n_ctx: int) -> Decision:
    because = {"held": held, "n_ctx": n_ctx}
    if held + 1 < n_ctx:
        return Decision(None, because)
    keep = min(n_prompt if n_keep < 0 else n_keep, n_ctx - SPARE)
    left = held - keep
    return Decision(Shift(keep, left, discard or left // 2), because)


# [Gone in llama_cpp@b9765]
@rule("LC-SHIFT.POSITIVE", Role.SHIFT, llama_cpp(CONTEXT, "", "b8916", pull=22267), since="#22267 (b8908)",
      until="#24786 (b9722)")
def shift_up_to_any(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shift a full context as LC-SHIFT, but a request may ask to discard more tokens than there are. Read in the
    changes, not run."""
    return _shift(held, n_prompt, n_keep, max(0, n_discard), n_ctx)


# [Gone in llama_cpp@b8916]
@rule("LC-SHIFT.UNCHECKED", Role.SHIFT, llama_cpp(SERVER, 'update_slots "n_discard"', "b6170"), until="#22267 (b8908)")
def shift_unchecked(held: int, n_prompt: int, n_keep: int, n_discard: int, n_ctx: int) -> Decision:
    """Shift a full context as LC-SHIFT, but takes any number of tokens to discard from the request, also a negative
    one. Read, not run."""
    return _shift(held, n_prompt, n_keep, n_discard, n_ctx)


# [Gone in llama_cpp@b5308]
@rule("LC-NPAST-REUSE.OPEN", Role.PREFIX,
      llama_cpp(OLD, 'update_slots "llama_kv_cache_seq_add"', "b4579", pull=12161),
      since="#9866 (b3914)", until="#12161 (b4825)")
def reuse_open(held: Sequence[int], asked: Sequence[int], n_past: int, least: int, exact: bool = False) -> Decision:
    """Reuse blocks of at least ``least`` equal tokens as LC-NPAST-REUSE, but shifts all tokens after the start of a
    block. A second block is then no longer where the list says, and other tokens are removed."""
    moved = []
    c = p = n_past
    now = list(held)
    while c < len(now) and p < len(asked):
        m = 0
        while c + m < len(now) and p + m < len(asked) and now[c + m] == asked[p + m]:
            m += 1
        if m >= least:
            moved.append(MovedBlock(m, c, p, True))
            now[p : p + m] = now[c : c + m]
            c, p = c + m, p + m
        else:
            c += 1
    return Decision(tuple(moved), {"n_past": n_past, "least": least, "found": len(moved)})


# [Gone in llama_cpp@b4094]
@rule("LC-NPAST-REUSE.NONE", Role.PREFIX, llama_cpp(OLD, "update_slots", "b3642"), until="#9866 (b3914)")
def reuse_none(held: Sequence[int], asked: Sequence[int], n_past: int, least: int, exact: bool = False) -> Decision:
    """Reuse no blocks after the common prefix: the server cannot shift them."""
    return Decision((), {"n_past": n_past, "least": least, "found": 0})


# --- slots -----------------------------------------------------------------------------------------------------------

# [Gone in llama_cpp@b5340]
@rule("LC-SLOT-LIKE.SUBSTRING", Role.ASSIGN, llama_cpp(OLD, "get_available_slot, common_lcs", "b4579"),
      until="#12898 (b5331)")
def like_by_substring(held: Sequence[int], asked: Sequence[int]) -> Decision:
    """Return how many tokens a slot and a prompt have in common for the choice of the slot: their longest common
    stretch, wherever it lies, although only a common prefix can be reused."""
    return Decision(common_substring(held, asked), {"held": len(held), "asked": len(asked)})


def _first_oldest(slots: Sequence[SlotFacts]) -> SlotChoice | None:
    """Return the idle slot that was released first; ties go to the lowest id."""
    idle = [slot for slot in slots if not slot.busy]
    if not idle:
        return None
    oldest = min(idle, key=lambda slot: (slot.t_last, slot.id))
    return SlotChoice(oldest.id, by="lru", f_sim=0.0, f_keep=0.0, update=False)


# [Gone in llama_cpp@b5630]
@rule("LC-SLOT-SELECT.SL00", Role.ASSIGN, llama_cpp(OLD, "get_available_slot", "b4579", pull=14079),
      until="#14079 (b5610)")
def slot_select_00(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select as SL0, but of slots that were never used the one with the lowest id."""
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if id_slot != ANY_SLOT:
        if not 0 <= id_slot < len(slots):
            return Decision(None, because)
        return Decision(SlotChoice(id_slot, by="name", f_sim=0.0, f_keep=0.0, update=False), because)
    found, share = None, F32(0)
    for slot in slots if sps else ():
        part = F32(slot.lcp) / F32(slot.held) if slot.held and not slot.busy else F32(0)
        if slot.lcp > (found.lcp if found else 0) and part > F32(sps):
            found, share = slot, part
    if found is not None:
        return Decision(SlotChoice(found.id, by="lcp", f_sim=float(share), f_keep=float(share), update=False), because)
    return Decision(_first_oldest(slots), because)


# [Gone in llama_cpp@b3642]
@rule("LC-SLOT-SELECT.SLN", Role.ASSIGN, llama_cpp(OLD, "get_slot", "b2781"), until="#7728 (b3109)")
def slot_select_named(slots: Sequence[SlotFacts], asked: int, id_slot: int, sps: float) -> Decision:
    """Select the named slot if it is idle, else the slot that was released first, whatever it holds."""
    because = {"asked": asked, "id_slot": id_slot, "sps": sps}
    if any(slot.id == id_slot and not slot.busy for slot in slots):
        return Decision(SlotChoice(id_slot, by="name", f_sim=0.0, f_keep=0.0, update=False), because)
    return Decision(_first_oldest(slots), because)


# --- recurrent states ------------------------------------------------------------------------------------------------

# [Gone in llama_cpp@b5913]
@rule("LC-RS-SPLIT.LOST", Role.MEMORY,
      llama_cpp("src/llama-memory-recurrent.cpp", "llama_memory_recurrent::init_batch", "b5833", pull=14575),
      since="#14512 (b5825)", until="#14575 (b5846)")
def split_lost(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: as ANY, but a model without attention loses a batch that needs
    more than one micro-batch, and the server ends. A batch of a single one is never answered. Both were seen on the
    real b5833."""
    return Decision(BatchSplit(False, False, 0, not attention), {"n_rs_seq": n_rs_seq, "unified": unified})


# --- end of generation -----------------------------------------------------------------------------------------------

# [Gone in llama_cpp@b5554]
@rule("LC-END.LATE", Role.END, llama_cpp(OLD, "process_token, has_budget, update_slots", "b4579"),
      until="#13577 (b5409)")
def end_late(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Stop the generation as LC-END, but not for a full context: without context shift the next step fails with the
    error "context shift is disabled"."""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    word = stop_word(said, words)
    spent = n_predict != -1 and n_gen >= max(1, n_predict)
    stop = "eos" if eog else "word" if word else "limit" if spent else ""
    return Decision((stop, False), because | ({"word": word} if word else {}))


# [Gone in llama_cpp@b6914]
@rule("LC-END.QUIET", Role.END, llama_cpp(SERVER, "process_token, has_budget", "b6170", pull=13577),
      since="#13577 (b5409)", until="#16812 (b6868)")
def end_untold(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Stop the generation as LC-END, but an answer that ends because its context is full is not said to be
    truncated."""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    full = not shift and n_slot + 1 >= n_ctx
    word = stop_word(said, words)
    spent = n_predict != -1 and n_gen >= max(1, n_predict)
    stop = "eos" if eog else "limit" if full else "word" if word else "limit" if spent else ""
    return Decision((stop, False), because | ({"word": word} if word else {}))
