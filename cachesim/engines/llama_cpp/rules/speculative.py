"""Drafts: how many tokens may be guessed, and what happens when a guess is wrong?

N      tokens in the slot before the batch
ids    what verification yields: the accepted draft tokens and one new token
Source: llama.cpp tools/server/server-context.cpp update_slots, common/speculative.cpp (3f545be).
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import COMMON, CONTEXT, SAMPLING, SPECULATIVE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-SPEC-ON.ANY", Role.SETUP,
      llama_cpp(CONTEXT, 'load_model "speculative decoding not supported"', "3f545be"), since="#19493 (b8842)")
def drafts_anywhere(exact: bool) -> Decision:
    """Drafts are made whatever the memory: what cannot be cut is saved before a draft. Value: are drafts made?"""
    return Decision(True, {"exact": exact})


# [Gone in llama_cpp@spring-2026]
@rule("LC-SPEC-ON.CUT", Role.SETUP,
      llama_cpp(SPECULATIVE, "common_speculative_is_compat", note="the message at b8808 in ggml-org/llama.cpp#20039"),
      since="#19270", until="#19493 (b8842)")
def drafts_where_cut(exact: bool) -> Decision:
    """A memory that cannot be cut at any position gets no drafts: "speculative decoding not supported by this
    context". Value: are drafts made?"""
    return Decision(not exact, {"exact": exact})


@rule("LC-SPEC-MAX", Role.DRAFT, llama_cpp(CONTEXT, "get_n_draft_max", "3f545be"))
def draft_max(held: int, n_ctx: int, n_predict: int, n_gen: int, share: int = 0) -> Decision:
    """A draft must leave room for its tokens and one more, and for one token of the budget. (Tokens of a batch that are
    each slot's ``share`` are not looked at.)"""
    room = n_ctx - held - 2
    left = room if n_predict == -1 else max(1, n_predict - n_gen) - 1
    return Decision(max(0, min(room, left)), {"held": held, "n_ctx": n_ctx, "n_gen": n_gen})


@rule("LC-SPEC-CKPT", Role.DRAFT,
      llama_cpp(CONTEXT, 'pre_decode "llama_n_rs_seq"', "3f545be"), since="#19493 (b8842), #22673 (b9180)")
def needs_checkpoint(exact: bool, n_rs_seq: int, n_draft: int) -> Decision:
    """The target is saved before a draft that it could not take back: a memory that cannot be cut, or that can be
    rolled back by fewer tokens than were drafted."""
    yes = exact and n_draft > n_rs_seq
    return Decision(yes, {"exact": exact, "n_rs_seq": n_rs_seq, "n_draft": n_draft})


@rule("LC-SPEC-REPLAY", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "use_ckpt_tgt {" "n_rollback" "spec_is_replay"', "3f545be"))
def must_replay(exact: bool, n_rs_seq: int, n_rollback: int) -> Decision:
    """Rejected tokens that the target cannot give up are undone by going back to the saved state; what was right is
    evaluated again."""
    yes = n_rollback > 0 and exact and n_rollback > n_rs_seq
    return Decision(yes, {"exact": exact, "n_rs_seq": n_rs_seq, "n_rollback": n_rollback})


@rule("LC-SPEC-ACCEPT.ALL", Role.DRAFT,
      llama_cpp(SAMPLING, "common_sampler_sample_and_accept_n", "3f545be"), until="b11312")
def accept_while_same(same: bool, eog: bool, left: int) -> Decision:
    """A drafted token is accepted if the target says the same, and then the next one is looked at; ``left`` tokens of
    the draft lie behind it. Value: does it go on? A token that ends the generation does not matter: what was accepted
    behind it stays in the slot (defect D14)."""
    return Decision(same, {"same": same, "left": left})


# [New in llama_cpp@b11312]
@rule("LC-SPEC-ACCEPT.EOG", Role.DRAFT,
      llama_cpp(SAMPLING, "common_sampler_sample_and_accept_n", "b11312", pull=28232), since="b11312")
def accept_until_eog(same: bool, eog: bool, left: int) -> Decision:
    """As ALL, but nothing is accepted behind a token that ends the generation. In last place such a token is accepted
    and followed by one more, as when a batch is replayed. (b11549 takes a replayed batch for accepted where the
    temperature is above 0, instead of verifying it again; at 0 both say the same.)"""
    return Decision(same and not (eog and left), {"same": same, "eog": eog, "left": left})


@rule("LC-SPEC-ROOM.SERVER", Role.DRAFT,
      llama_cpp(CONTEXT, 'handle_last_sampled_token "must be large enough", add', "3f545be"), since="#24843")
def draft_has_room(n_batch: int, capacity: int) -> Decision:
    """The sampled tokens and drafts of all slots go into one batch, which holds n_batch tokens, or one for each slot.
    Value: the assertion with which the process ends if ``n_batch`` tokens do not fit, "" = they do."""
    text = "batch must be large enough to hold the sampled and draft tokens"
    return _room(text, n_batch, capacity)


# [Gone in llama_cpp@user-turns]
@rule("LC-SPEC-ROOM.COMMON", Role.DRAFT,
      llama_cpp(COMMON, 'common_batch_add "size exceeded", tools/server/server-context.cpp llama_batch_init', "b9713",
                note="read in xllamacpp 0.2.12 (2026-02) to b9713, the same in all"), until="#24843")
def batch_has_room(n_batch: int, capacity: int) -> Decision:
    """The same limit, but nobody asks before a token is added: the batch itself asserts. Value: as SERVER."""
    text = 'batch.seq_id[batch.n_tokens] && "llama_batch size exceeded"'
    return _room(text, n_batch, capacity)


def _room(text: str, n_batch: int, capacity: int) -> Decision:
    fits = n_batch <= capacity
    return Decision("" if fits else f"GGML_ASSERT({text}) failed", {"n_batch": n_batch, "capacity": capacity})


@rule("LC-SPEC-SPLIT.ERROR", Role.DRAFT,
      llama_cpp(CONTEXT, 'post_decode "current sub-batch"', "3f545be", note="why: ggml-org/llama.cpp/issues/24840"),
      since="#24843")
def draft_is_split(first: int, last: int, off: int, n: int) -> Decision:
    """After a view of the batch every draft must lie in it: one that a shortage of cells has cut off, or that comes in
    a later view, is given up. Value: the index in the batch that is named, None = the draft lies in the view."""
    outside = next((i for i in range(first, last + 1) if not off <= i < off + n), None)
    return Decision(outside, {"first": first, "last": last, "off": off, "n": n})


# [Gone in llama_cpp@user-turns]
@rule("LC-SPEC-SPLIT.NONE", Role.DRAFT,
      llama_cpp(CONTEXT, 'update_slots "main model sample and accept", common/sampling.cpp set_logits', "b9713",
                note="read in xllamacpp 0.2.12 (2026-02) to b9713"), until="#24843")
def split_is_not_seen(first: int, last: int, off: int, n: int) -> Decision:
    """Nobody looks whether a draft lies in the view. It is verified after the first one, and the process ends when a
    token is asked for that the view does not contain. Value: always None."""
    return Decision(None, {"first": first, "last": last, "off": off, "n": n})
