"""Startup: values that later decisions use, derived from model and flags.

Source: llama.cpp tools/server/server-context.cpp load_model, src/llama-context.cpp.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-N-SWA.FULL0", Role.SETUP, llama_cpp(CONTEXT, 'load_model "n_swa"', "3f545be"), since="#22288 (b8916)")
def n_swa_unless_full(n_swa: int, swa_full: bool) -> Decision:
    """Return n_swa for thresholds: 0 with ``--swa-full``."""
    return Decision(0 if swa_full else n_swa, {"n_swa": n_swa, "swa_full": swa_full})


# [Gone in llama_cpp@b8916]
@rule("LC-N-SWA.MODEL", Role.SETUP, llama_cpp(CONTEXT, "", "ab9d4c367"), until="#22288")
def n_swa_of_model(n_swa: int, swa_full: bool) -> Decision:
    """Return n_swa for thresholds: the model's window, even with ``--swa-full``."""
    return Decision(n_swa, {"n_swa": n_swa, "swa_full": swa_full})


# [Gone in llama_cpp@b8450]
@rule("LC-N-SWA.ONE", Role.SETUP, llama_cpp(SERVER, "", "f6dcda390"), since="#16382 (b6685)", until="#20726")
def n_swa_at_least_one(n_swa: int, swa_full: bool) -> Decision:
    """Return n_swa for thresholds and log lines: the model's window, at least 1."""
    return Decision(max(1, n_swa), {"n_swa": n_swa, "swa_full": swa_full})


@rule("LC-SLOTS-OPEN.AUTO", Role.SETUP, llama_cpp(SERVER, 'llama_server "params.n_parallel < 0"', "3f545be"))
def slots_open_if_auto(parallel: int, unified: bool, has_draft_model: bool) -> Decision:
    """True if the number of slots is left open: -1."""
    return Decision(parallel == -1, {"parallel": parallel})


# [New in llama_cpp@b6998; gone in llama_cpp@b7789]
@rule("LC-SLOTS-OPEN.ONE", Role.SETUP, llama_cpp(SERVER, "", "380b4c984"), since="#16736 (b6925)",
      until="#17997 (b7433)")
def slots_open_at_one(parallel: int, unified: bool, has_draft_model: bool) -> Decision:
    """True if the number of slots is left open: -1, or 1 without ``-kvu`` and without a draft model."""
    because = {"parallel": parallel, "unified": unified, "has_draft_model": has_draft_model}
    return Decision(parallel == -1 or (parallel == 1 and not unified and not has_draft_model), because)


@rule("LC-SLOT-CTX.WHOLE", Role.SETUP,
      llama_cpp(CONTEXT, "get_slot_n_ctx, later n_ctx_slot", "3f545be"), since="#16736 (b6925)")
def slot_ctx_whole(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int, n_ctx_train: int) -> Decision:
    """Return n_ctx of a slot: that of a sequence; with a unified KV cache the whole context. At most the context that
    the model was trained on, 0 = not known (read in b8929, seen on b7376 and b9713); no flag caps it."""
    capped = min(n_ctx_seq, n_ctx_train) if n_ctx_train else n_ctx_seq
    return Decision(capped, {"n_ctx_seq": n_ctx_seq, "n_slots": n_slots})


# [Gone in llama_cpp@b6998]
@rule("LC-SLOT-CTX.SHARE", Role.SETUP, llama_cpp(SERVER, "", "f6dcda390"), until="#16736 (b6925)")
def slot_ctx_share(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int, n_ctx_train: int) -> Decision:
    """Return n_ctx of a slot: an equal share of the context, with a unified KV cache too."""
    return Decision(n_ctx // n_slots, {"n_ctx": n_ctx, "n_slots": n_slots})


# [New in llama_cpp@b10809]
@rule("LC-SLOT-CTX.CAPPED", Role.SETUP, llama_cpp(CONTEXT, "n_ctx_slot", "b10809", pull=24124), since="b10809")
def slot_ctx_capped(n_ctx_seq: int, n_ctx: int, n_slots: int, per_slot: int, n_ctx_train: int) -> Decision:
    """Return n_ctx of a slot: as WHOLE, but at most ``--kv-unified-per-slot`` if given, even without a unified KV
    cache. (The cap by the trained context was seen on b10809 and b11549.)"""
    because = {"n_ctx_seq": n_ctx_seq, "n_slots": n_slots, "per_slot": per_slot}
    limits = (limit for limit in (per_slot, n_ctx_train) if limit > 0)
    return Decision(min([n_ctx_seq, *limits]), because)


@rule("LC-CTX-POOL.GIVEN", Role.SETUP, llama_cpp(SERVER, "llama_server", "3f545be"), until="#24124 (b10809)")
def ctx_pool_given(n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """Return n_ctx before padding: the value of ``-c``, 0 = not given."""
    return Decision(n_ctx, {"n_ctx": n_ctx})


# [New in llama_cpp@b10809]
@rule("LC-CTX-POOL.PER-SLOT", Role.SETUP,
      llama_cpp(SERVER, 'llama_server "kv_unified_per_slot > 0" "n_parallel * params"', "b10809", pull=24124),
      since="b10809")
def ctx_pool_per_slot(n_ctx: int, n_slots: int, per_slot: int) -> Decision:
    """Return n_ctx before padding: the value of ``-c``; if not given, the number of slots times
    ``--kv-unified-per-slot``."""
    value = n_slots * per_slot if n_ctx == 0 and per_slot > 0 else n_ctx
    return Decision(value, {"n_ctx": n_ctx, "n_slots": n_slots, "per_slot": per_slot})
