"""Speculative decoding: drafts are added to the batch and verified, rejected tokens are undone.

The drafter is forced: a request states which tokens are drafted where, and how many are correct. The draft context (in
the code: companion) follows the target. Only the positions in it are simulated, because its drafts affect nothing but
the number of accepted tokens. It never lacks a cell for a draft: it is as large as the target, the server refuses
several slots with such a drafter, and a draft ends before the context does. With the option ``drafts_from_rows``,
drafts from wrong rows are all rejected. Source: ik_llama.cpp examples/server/server-context.cpp
speculative_decoding_accept, common/speculative.cpp common_speculative_run_round (8337e4cd3).
"""

from __future__ import annotations

import copy

from cachesim.base.tokens import POS_INF
from cachesim.engines.base import AS_MANY_AS_ALLOWED
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, SpecCkpt, Task
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.vocab import forced_draft


def make_draft(srv: Core, slot: Slot, task: Task) -> None:
    """Draft for a generating slot, and save the state that a rejection would need."""
    request, held = task.request, len(slot.tokens)
    slot.draft = []
    slot.is_drafting = False
    slot.spec = None
    plan = next((d for d in request.drafts if d.at == held), None)
    if not srv.settings.n_max or not (plan or request.draft_else):
        return
    left = request.n_predict - slot.n_decoded if request.n_predict >= 0 else -1
    wanted = plan.drafted if plan else request.draft_else
    if wanted == AS_MANY_AS_ALLOWED:
        wanted = srv.settings.n_max
    most: int = srv.decide(srv.rules.draft_max(held - slot.uncounted, srv.settings.n_ctx_slot, wanted, left), slot)
    if not most:
        return
    slot.is_drafting = True
    reads = _reads_right_rows(srv, slot, held)
    _companion_drafts(srv, slot, held, most)
    saved, keeps = True, True
    if srv.kind.states:
        saved, keeps = srv.decide(srv.rules.spec_save(most + 1, srv.settings.n_max + 1), slot)
    if not keeps:
        return
    right = 0 if not reads else min(most, plan.accepted) if plan else most
    slot.draft = forced_draft(
        srv.sampler, [*slot.tokens, slot.sampled], request, n_gen=slot.n_decoded, right=right, drafted=most
    )
    task.answer.draft_n += most
    if srv.kind.states and saved:
        slot.spec = _save(srv, slot, held)


def _reads_right_rows(srv: Core, slot: Slot, held: int) -> bool:
    """True if the draft context drafts for the position after the target's tokens, and from rows that were
    conditioned on earlier states only. Always True unless the options ask for it, as drafts are forced."""
    if srv.companion is None or not srv.settings.flags.drafts_from_rows:
        return True
    start = srv.decide(srv.rules.draft_from(held, srv.companion.kv.pos_max(slot.id)), slot)
    return bool(start == held) and not any(pos < held for pos in srv.later.get(slot.id, []))


def _save(srv: Core, slot: Slot, held: int) -> SpecCkpt:
    how, kv = srv.settings.rollback, srv.memory
    if how == "gpu-fallback":
        return SpecCkpt(held, [dict(states) for states in kv.states], copy.deepcopy(kv.cells))
    if how == "cpu":
        return SpecCkpt(held, blob=kv.get(slot.id, partial=True))
    srv.context.per_step = True
    return SpecCkpt(held)


def _companion_drafts(srv: Core, slot: Slot, held: int, most: int) -> None:
    """Simulate the positions in the draft context while it drafts: the sampled token, unless its successor is known
    from the previous round, then every draft but the last. Afterwards these positions are removed."""
    if srv.companion is None:
        return
    kv = srv.companion.kv
    known = slot.id in srv.known_next
    first = held + 1 if known else held
    n_decode = 0
    for pos in range(first, held + most):
        is_decoded = _decode(srv, slot, pos, 1)
        if is_decoded:
            n_decode += 1
    span = srv.rules.spec_purge(held, known, n_decode).value
    if span is not None:
        kv.seq_rm(slot.id, *span)


def _decode(srv: Core, slot: Slot, pos: int, n: int) -> bool:
    """Let the draft context evaluate ``n`` tokens from a position on. False = it failed."""
    assert srv.companion is not None
    batch = DecodeBatch()
    batch.extend([0] * n, pos, slot.id)
    return srv.companion.decode(batch) == 0


def warm_up(srv: Core, slot: Slot, view: DecodeBatch, first: int, stop: int) -> None:
    """Let the draft context evaluate prompt tokens that the target has evaluated."""
    if srv.companion is None:
        return
    pos = view.pos[first]
    kv = srv.companion.kv
    if not kv.empty(slot.id) and kv.pos_max(slot.id) >= pos:
        kv.seq_rm(slot.id, pos, POS_INF)
    srv.known_next.discard(slot.id)
    later = [row for row in srv.later.get(slot.id, []) if row < pos]
    warm = srv.rules.warm_up(pos, stop - first)
    if warm.value > pos:
        srv.decide(warm, slot)
        later.append(pos)
    srv.later[slot.id] = later
    _decode(srv, slot, pos, stop - first)


def accept(srv: Core, slot: Slot, task: Task) -> list[int]:
    """Compare the draft with the sampler's tokens and undo the rejected tokens. Return the accepted drafts and the new
    token."""
    held = len(slot.tokens) - len(slot.draft)                  # includes the sampled token
    ids: list[int] = []
    for k in range(len(slot.draft) + 1):
        ids.append(srv.sampler(slot.tokens[: held + k], task.request, slot.n_decoded + k))
        if k < len(slot.draft) and ids[k] != slot.draft[k]:
            break
    task.answer.draft_n_accepted += len(ids) - 1
    rejected = len(slot.draft) + 1 - len(ids)
    slot.tokens[held:] = ids[:-1]
    srv.points.touch(slot.id, held)
    if rejected and slot.spec is not None:
        _restore(srv, slot, slot.spec, ids)
    else:
        srv.memory.seq_rm(slot.id, len(slot.tokens), POS_INF)
    srv.context.per_step = False
    _commit(srv, slot, held - 1, len(ids))
    return ids


def _commit(srv: Core, slot: Slot, held: int, n: int) -> None:
    """Let the draft context evaluate the ``n`` accepted tokens; then it knows its next draft."""
    if srv.companion is None:
        return
    kv = srv.companion.kv
    base, remove = srv.rules.spec_commit(held).value
    if remove and not kv.empty(slot.id) and kv.pos_max(slot.id) >= base:
        kv.seq_rm(slot.id, base, POS_INF)
    if _decode(srv, slot, base, n):
        srv.known_next.add(slot.id)


def _restore(srv: Core, slot: Slot, spec: SpecCkpt, ids: list[int]) -> None:
    """Restore the recurrent row before the first rejected token. Rows kept per step: restore the row kept after the
    last accepted token (or whatever its place holds, if the round did not fit into a single micro-batch) into the row
    that the rules select. Otherwise: restore the row before the round and evaluate the accepted tokens again."""
    kv, step = srv.memory, len(ids) - 1
    if spec.states is None and spec.blob is None:
        row, relabel = srv.decide(srv.rules.spec_row(slot.id), slot)
        if srv.context.model is not None:
            kv.states[row] = srv.context.kept_after(slot.id, spec.n_past, step)
        kv.state_pos[row] = spec.n_past + step
        if relabel:
            kv.cells.relabel(slot.id, spec.n_past + step)
        kv.seq_rm(slot.id, spec.n_past + step + 1, POS_INF)
        return
    if spec.blob is not None:
        kv.set(slot.id, spec.blob)
    elif spec.states is not None and spec.cells is not None:
        kv.states, kv.cells = spec.states, spec.cells
    kv.seq_rm(slot.id, spec.n_past, POS_INF)
    batch = DecodeBatch()                                      # re-evaluate the sampled token and the accepted drafts
    batch.extend(slot.tokens[spec.n_past :], spec.n_past, slot.id)
    srv.context.per_step = False
    srv.context.decode(batch)
