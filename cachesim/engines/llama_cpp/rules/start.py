"""What does a version make of model and flags when it starts? Numbers that later decisions count with.

Source: llama.cpp tools/server/server-context.cpp load_model, src/llama-context.cpp; spec 3.1; history sections 1, 2.
"""

from __future__ import annotations

from cachesim.engines.base import Decision, rule


@rule("LC-N-SWA.FULL0")
def n_swa_unless_full(n_swa: int, swa_full: bool) -> Decision:
    """The window that thresholds count with: none if the window cache holds everything.
    Source: llama.cpp tools/server/server-context.cpp load_model "n_swa" (3f545be), since #22288 (b8916)."""
    return Decision("LC-N-SWA.FULL0", 0 if swa_full else n_swa, {"n_swa": n_swa, "swa_full": swa_full})


# [Gone in llama_cpp@spring-2026]
@rule("LC-N-SWA.MODEL")
def n_swa_of_model(n_swa: int, swa_full: bool) -> Decision:
    """The model's window, whatever the cache holds.
    Source: llama.cpp tools/server/server-context.cpp (ab9d4c367), before #22288; history section 2, CKPT-THOLD."""
    return Decision("LC-N-SWA.MODEL", n_swa, {"n_swa": n_swa, "swa_full": swa_full})


# [Gone in llama_cpp@before-min0]
@rule("LC-N-SWA.ONE")
def n_swa_at_least_one(n_swa: int, swa_full: bool) -> Decision:
    """The model's window, and 1 where there is none: so it was counted with and printed.
    Source: llama.cpp tools/server/server.cpp (f6dcda390), #16382 (b6685) to #20726; history section 7, 8."""
    return Decision("LC-N-SWA.ONE", max(1, n_swa), {"n_swa": n_swa, "swa_full": swa_full})


@rule("LC-SLOT-CTX.WHOLE")
def slot_ctx_whole(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """A slot may fill the context of a sequence: with a unified cache, all of it. (No flag caps it.)
    Source: llama.cpp tools/server/server-context.cpp get_slot_n_ctx, later n_ctx_slot (3f545be), since #16736
    (b6925)."""
    return Decision("LC-SLOT-CTX.WHOLE", n_ctx_seq, {"n_ctx_seq": n_ctx_seq, "n_slots": n_slots})


# [Gone in llama_cpp@late-2025]
@rule("LC-SLOT-CTX.SHARE")
def slot_ctx_share(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """A slot gets an equal share of the context, with a unified cache too.
    Source: llama.cpp tools/server/server.cpp (f6dcda390), before #16736 (b6925)."""
    return Decision("LC-SLOT-CTX.SHARE", n_ctx // n_slots, {"n_ctx": n_ctx, "n_slots": n_slots})


# [New in llama_cpp@b10809]
@rule("LC-SLOT-CTX.CAPPED")
def slot_ctx_capped(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """As WHOLE, but at most ``--kv-unified-per-slot`` tokens where that is given, without a unified cache too.
    Source: llama.cpp tools/server/server-context.cpp n_ctx_slot (b10809); ggml-org/llama.cpp#24124."""
    because = {"n_ctx_seq": n_ctx_seq, "n_slots": n_slots, "per_slot": per_slot}
    return Decision("LC-SLOT-CTX.CAPPED", min(n_ctx_seq, per_slot) if per_slot > 0 else n_ctx_seq, because)


@rule("LC-CTX-POOL.GIVEN")
def ctx_pool_given(n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """The context is as large as ``-c`` says. Value: tokens, before padding; 0 = not given.
    Source: llama.cpp tools/server/server.cpp llama_server (3f545be), before #24124 (b10809)."""
    return Decision("LC-CTX-POOL.GIVEN", n_ctx, {"n_ctx": n_ctx})


# [New in llama_cpp@b10809]
@rule("LC-CTX-POOL.PER-SLOT")
def ctx_pool_per_slot(n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """Without ``-c``, as many slots as there are times ``--kv-unified-per-slot``.
    Source: llama.cpp tools/server/server.cpp llama_server "kv_unified_per_slot > 0" "n_parallel * params"
    (b10809); ggml-org/llama.cpp#24124."""
    value = n_slots * per_slot if n_ctx == 0 and per_slot > 0 else n_ctx
    return Decision("LC-CTX-POOL.PER-SLOT", value, {"n_ctx": n_ctx, "n_slots": n_slots, "per_slot": per_slot})
