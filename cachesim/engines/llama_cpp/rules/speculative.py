"""Speculative decoding: length of drafts, saved states, acceptance and rejection.

N      tokens in the slot before the batch
ids    result of verification: the accepted draft tokens and a new token
Source: llama.cpp tools/server/server-context.cpp update_slots, common/speculative.cpp (3f545be).
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import COMMON, CONTEXT, SAMPLING, SPECULATIVE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-SPEC-ON.ANY", Role.SETUP,
      llama_cpp(CONTEXT, 'load_model "speculative decoding not supported"', "3f545be"), since="#19493 (b8842)")
def drafts_anywhere(exact: bool) -> Decision:
    """Return True: speculative decoding works with any memory; a memory that cannot be cut is saved before a draft."""
    return Decision(True, {"exact": exact})


# [Gone in llama_cpp@b8916]
@rule("LC-SPEC-ON.CUT", Role.SETUP,
      llama_cpp(SPECULATIVE, "common_speculative_is_compat", note="the message at b8808 in ggml-org/llama.cpp#20039"),
      since="#19270", until="#19493 (b8842)")
def drafts_where_cut(exact: bool) -> Decision:
    """Return False for a memory that cannot be cut at every position: "speculative decoding not supported by this
    context"."""
    return Decision(not exact, {"exact": exact})


@rule("LC-SPEC-MAX", Role.DRAFT, llama_cpp(CONTEXT, "get_n_draft_max", "3f545be"))
def draft_max(held: int, n_ctx: int, n_predict: int, n_gen: int, share: int = 0) -> Decision:
    """Return the maximum draft length: it must leave room in the context for its tokens and a further token, and a
    token of n_predict. (``share``, a slot's part of a batch, is not checked.)"""
    room = n_ctx - held - 2
    left = room if n_predict == -1 else max(1, n_predict - n_gen) - 1
    return Decision(max(0, min(room, left)), {"held": held, "n_ctx": n_ctx, "n_gen": n_gen})


# [New in llama_cpp@b4265]
# [Gone in llama_cpp@b4579]
@rule("LC-SPEC-MAX.ANY", Role.DRAFT, llama_cpp("examples/server/server.cpp", "update_slots", "9ca2e6776", pull=10641),
      until="#10641 (b4266)")
def draft_any(held: int, n_ctx: int, n_predict: int, n_gen: int, share: int = 0) -> Decision:
    """Return n_ctx: the context does not limit the length of a draft. Read, not run."""
    return Decision(n_ctx, {"held": held, "n_ctx": n_ctx, "n_gen": n_gen})


@rule("LC-SPEC-FULL.ENDS", Role.DRAFT,
      llama_cpp(SPECULATIVE, 'common_speculative_impl_draft_mtp::draft "llama_decode"', "3f545be"),
      since="#22838 (b9109)")
def ends_when_full(steps: int, room: int) -> Decision:
    """Return the number of tokens after which a draft ends, None = all its steps find cells. Each step of a drafter
    puts a token of every drafting slot into the drafter's memory, which all slots share; the draft ends before the step
    that finds too few cells."""
    ends = room if room < steps else None
    return Decision(ends, {"steps": steps, "room": room})


# [Gone in llama_cpp@b9230]
@rule("LC-SPEC-FULL.OWN", Role.DRAFT,
      llama_cpp(SPECULATIVE, 'common_speculative_gen_draft "n_ctx - params.n_draft"', "9ca2e6776", pull=22838),
      until="#22838 (b9109)")
def has_own_memory(steps: int, room: int) -> Decision:
    """Return None: each slot has a draft context of its own, which keeps as much of the end of the prompt as leaves
    room for a draft. Read, not run."""
    return Decision(None, {"steps": steps, "room": room})


@rule("LC-SPEC-BATCH.SHARED", Role.DRAFT, llama_cpp(CONTEXT, "handle_last_sampled_token", "3f545be", pull=17808),
      since="#17808 (b7323)")
def batch_is_shared() -> Decision:
    """Return False: a draft is evaluated in the batch of all slots, right after the sampled token."""
    return Decision(False, {})


# [Gone in llama_cpp@b7400]
@rule("LC-SPEC-BATCH.OWN", Role.DRAFT, llama_cpp("examples/server/server.cpp", "update_slots", "9ca2e6776", pull=10455),
      until="#17808 (b7323)")
def batch_is_own() -> Decision:
    """Return True: a draft and the sampled token before it are a batch of their own, evaluated after the batch of all
    slots. A failure is ignored: the server then reads outputs that do not exist, which ends it. Read, not run."""
    return Decision(True, {})


@rule("LC-SPEC-CKPT", Role.DRAFT,
      llama_cpp(CONTEXT, 'pre_decode "llama_n_rs_seq"', "3f545be"), since="#19493 (b8842), #22673 (b9180)")
def needs_checkpoint(exact: bool, n_rs_seq: int, n_draft: int) -> Decision:
    """True if the target's state must be saved before a draft: the memory cannot be cut, or can be rolled back
    only by fewer tokens than were drafted."""
    yes = exact and n_draft > n_rs_seq
    return Decision(yes, {"exact": exact, "n_rs_seq": n_rs_seq, "n_draft": n_draft})


@rule("LC-SPEC-REPLAY", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "use_ckpt_tgt {" "n_rollback" "spec_is_replay"', "3f545be"))
def must_replay(exact: bool, n_rs_seq: int, n_rollback: int) -> Decision:
    """True if rejected tokens are undone by restoring the saved state and re-evaluating the accepted tokens,
    because seq_rm cannot remove them."""
    yes = n_rollback > 0 and exact and n_rollback > n_rs_seq
    return Decision(yes, {"exact": exact, "n_rs_seq": n_rs_seq, "n_rollback": n_rollback})


@rule("LC-SPEC-COUNT.ONCE", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "spec_is_replay" "n_draft_accepted"', "3f545be"), since="#26320 (b10210)")
def count_without_replay(accepted: int, replayed: bool) -> Decision:
    """Return the number of accepted draft tokens that a batch adds to the statistics: the last token of a replayed
    batch was sampled, not drafted."""
    count = accepted - 1 if replayed and accepted else accepted
    return Decision(count, {"accepted": accepted, "replayed": replayed})


# [Gone in llama_cpp@b10587]
@rule("LC-SPEC-COUNT.ALL", Role.DRAFT,
      llama_cpp(CONTEXT, 'update_slots "n_draft_accepted"', "73618f27a"), until="#26320 (b10210)")
def count_all(accepted: int, replayed: bool) -> Decision:
    """Return the number of accepted draft tokens that a batch adds to the statistics: all, also the sampled token of a
    replayed batch."""
    return Decision(accepted, {"accepted": accepted, "replayed": replayed})


@rule("LC-SPEC-PLACE.OWN", Role.DRAFT,
      llama_cpp("src/llama-context.cpp", "state_seq_set_data", "3f545be"), since="#22805 (b9064)")
def place_of_sequence(slot: int) -> Decision:
    """Return True: the state saved before a draft is read from, and restored into, the sequence's own cell."""
    return Decision(True, {"slot": slot})


# [New in llama_cpp@b9063]
# [Gone in llama_cpp@b9230]
@rule("LC-SPEC-PLACE.FIRST", Role.DRAFT,
      llama_cpp("src/llama-context.cpp", "llama_io_write_device, llama_io_read_device", "d6e7b033a",
                note="read, not run; a window is not covered"),
      since="#22679 (b9028)", until="#22805 (b9064)")
def place_of_first_save(slot: int) -> Decision:
    """Return False: the state before a draft stays on the device. It is always copied from and to the cell that the
    sequence had when it was first saved, even if another sequence is there now."""
    return Decision(False, {"slot": slot})


@rule("LC-SPEC-UNREAD.SIZE", Role.DRAFT,
      llama_cpp(COMMON, "common_prompt_checkpoint::load_tgt", "3f545be"), until="b11549")
def unread_says_size(of_draft: bool) -> Decision:
    """Return the message of the abort if there are too few free cells for the state saved before a draft."""
    return Decision("checkpoint size mismatch", {"of_draft": of_draft})


# [New in llama_cpp@b11549]
@rule("LC-SPEC-UNREAD.ASSERT", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "restoring speculative checkpoint" "GGML_ASSERT"', "b11549", pull=26004),
      since="b11549")
def unread_asserts(of_draft: bool) -> Decision:
    """Return the message of the abort if there are too few free cells for the state saved before a draft: the
    assertion that it was restored, in the target context or in that of the draft model."""
    which = "dft" if of_draft else "tgt"
    call = f"ckpt.load_{which}(slot.ctx_{which}, slot.id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)"
    return Decision(f"GGML_ASSERT({call}) failed", {"of_draft": of_draft})


@rule("LC-SPEC-ACCEPT.ALL", Role.DRAFT,
      llama_cpp(SAMPLING, "common_sampler_sample_and_accept_n", "3f545be"), until="b11312")
def accept_while_same(same: bool, eog: bool, left: int) -> Decision:
    """True if a drafted token is accepted: the target sampled the same token. A token that ends the generation
    is not checked: tokens accepted after it stay in the slot (defect D14). ``left`` tokens of the draft follow."""
    return Decision(same, {"same": same, "left": left})


# [New in llama_cpp@b11312]
@rule("LC-SPEC-ACCEPT.EOG", Role.DRAFT,
      llama_cpp(SAMPLING, "common_sampler_sample_and_accept_n", "b11312", pull=28232), since="b11312")
def accept_until_eog(same: bool, eog: bool, left: int) -> Decision:
    """True if a drafted token is accepted: the target sampled the same token, and it does not end the
    generation before the draft's last token. At the end of the draft it is accepted and followed by a new token, as in
    a replayed batch. (b11549 accepts a replayed batch without comparison if the temperature is above 0; at 0 both give
    equal results.)"""
    return Decision(same and not (eog and left), {"same": same, "eog": eog, "left": left})


@rule("LC-SPEC-ROOM.SERVER", Role.DRAFT,
      llama_cpp(CONTEXT, 'handle_last_sampled_token "must be large enough", add', "3f545be"), since="#24843")
def draft_has_room(n_batch: int, capacity: int) -> Decision:
    """Return the assertion that fails if the sampled tokens and drafts of all slots (n_batch tokens) do not fit into a
    batch, "" = they fit."""
    text = "batch must be large enough to hold the sampled and draft tokens"
    return _room(text, n_batch, capacity)


# [Gone in llama_cpp@b9765]
@rule("LC-SPEC-ROOM.COMMON", Role.DRAFT,
      llama_cpp(COMMON, 'common_batch_add "size exceeded", tools/server/server-context.cpp llama_batch_init', "b9713",
                note="read in xllamacpp 0.2.12 (2026-02) to b9713, the same in all"), until="#24843")
def batch_has_room(n_batch: int, capacity: int) -> Decision:
    """Return the assertion that fails, inside the batch itself, if the sampled tokens and drafts of all slots do not
    fit into a batch, "" = they fit."""
    text = 'batch.seq_id[batch.n_tokens] && "llama_batch size exceeded"'
    return _room(text, n_batch, capacity)


def _room(text: str, n_batch: int, capacity: int) -> Decision:
    fits = n_batch <= capacity
    return Decision("" if fits else f"GGML_ASSERT({text}) failed", {"n_batch": n_batch, "capacity": capacity})


@rule("LC-SPEC-SPLIT.ERROR", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "current sub-batch"', "3f545be", note="why: ggml-org/llama.cpp/issues/24840"),
      since="#24843")
def draft_is_split(first: int, last: int, off: int, n: int) -> Decision:
    """Return the index in the batch of a draft's token that is outside the evaluated view (the request fails), None =
    the whole draft is inside. Lack of free cells, or a later view, may cut off a draft."""
    outside = next((i for i in range(first, last + 1) if not off <= i < off + n), None)
    return Decision(outside, {"first": first, "last": last, "off": off, "n": n})


# [Gone in llama_cpp@b9765]
@rule("LC-SPEC-SPLIT.NONE", Role.DRAFT,
      llama_cpp(CONTEXT, 'update_slots "main model sample and accept", common/sampling.cpp set_logits', "b9713",
                note="read in xllamacpp 0.2.12 (2026-02) to b9713"), until="#24843")
def split_is_not_seen(first: int, last: int, off: int, n: int) -> Decision:
    """Return None: whether a draft is inside the evaluated view is not checked. It is verified after the first view,
    and the server aborts at a token that the view does not contain."""
    return Decision(None, {"first": first, "last": last, "off": off, "n": n})
