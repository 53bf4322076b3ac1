"""Start of a prompt: selection of the reused prefix and of the first token to evaluate.

Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt, apply_checkpoint (8337e4cd3).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.base import NO_ROOM
from cachesim.engines.ik_llama.context_shift import shorten_prompt
from cachesim.engines.ik_llama.events import CacheLcp
from cachesim.engines.ik_llama.media import check_cut, check_image
from cachesim.engines.ik_llama.prefill_chunk import logged_tokens
from cachesim.engines.ik_llama.rules.checkpoint_restore import CheckpointNeed, RestoreInputs, ResumePlace
from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.conversation_points import ALL_TOKENS

TOO_LONG = "the request exceeds the available context size, try increasing it"


def begin_prompt(srv: Core, slot: Slot, task: Task) -> bool:
    """Determine how many tokens of the slot and of the prompt are skipped. False = nothing to evaluate, the task is
    done."""
    check_image(srv, slot, min(task.prompt, default=0), 0)
    empty = srv.rules.prompt_empty(len(task.prompt))
    if empty.value:
        srv.decide(empty, slot)
        slot.n_decoded, task.answer.deciding = 0, empty.rule
        srv.leave(slot)
        return False
    # The client of a prompt that does not fit gets an error. Depending on the rules the prompt is still evaluated in
    # the next iterations, from position 0 and without restoring a checkpoint of the previous conversation.
    if len(task.prompt) >= srv.settings.n_ctx_slot:
        if not srv.settings.context_shift:
            full = srv.rules.full(len(task.prompt), srv.settings.n_ctx_slot, False)
            srv.decide(full, slot)
            srv.fail(slot, TOO_LONG, NO_ROOM, tokens=len(task.prompt), room=srv.settings.n_ctx_slot)
            if srv.decide(srv.rules.refused(len(task.prompt), srv.settings.n_ctx_slot), slot):
                slot.tokens.clear()
                srv.changed(slot, "truncated", full.rule)
            else:
                srv.leave(slot)
            return False
        shorten_prompt(srv, slot, task)
    found = _common(srv, slot, task)
    back: int = srv.decide(srv.rules.one(found.prompt, len(task.prompt), False), slot)
    resume = _use_checkpoint(srv, slot, task, found=CommonLength(found.cache - back, found.prompt - back), back=back)
    back = srv.decide(srv.rules.one(resume.n_past_prompt, len(task.prompt), True), slot)
    if back:
        srv.emit(slot_ev.NeedOne(slot.id, task.id, resume.n_past, len(task.prompt)))
    slot.n_prompt = resume.n_past_prompt - back
    task.answer.reused = _reused(srv, slot, task)
    check_cut(srv, slot, slot.tokens, resume.n_past - back)
    del slot.tokens[resume.n_past - back :]
    srv.changed(slot, "truncated", task.answer.deciding)
    return True


def _reused(srv: Core, slot: Slot, task: Task) -> dict[str, int]:
    """Return the reused tokens by source; a system prompt that an earlier request set counts as kept in the slot,
    although the real server does not count it."""
    found = {slot.source: slot.n_prompt}
    if srv.system and task.system is None:
        found["slot"] = found.get("slot", 0) + len(srv.system)
    return found


def _common(srv: Core, slot: Slot, task: Task) -> CommonLength:
    """Return the common prefix of slot and prompt; empty if the client requests a fresh evaluation."""
    reuse = srv.rules.reuse(task.request.cache_prompt)
    if not srv.decide(reuse, slot):
        task.answer.deciding = reuse.rule
        return CommonLength(0, 0)
    prefix = srv.rules.prefix(slot.tokens, task.prompt, srv.pieces)
    task.answer.deciding = prefix.rule
    found: CommonLength = srv.decide(prefix, slot)
    slot.offset = found.prompt - found.cache
    srv.emit(CacheLcp(slot.id, task.id, n_tokens=len(slot.tokens), n_past=found.cache, n_past_prompt=found.prompt))
    return found


def _use_checkpoint(srv: Core, slot: Slot, task: Task, found: CommonLength, back: int) -> ResumePlace:
    """Restore a checkpoint if the live memory cannot serve the prompt, and erase the checkpoints that are no longer
    valid."""
    if back:
        srv.emit(slot_ev.NeedOne(slot.id, task.id, found.cache, len(task.prompt)))
    ask = _facts(srv, slot, task, found)
    need: CheckpointNeed = srv.decide(srv.rules.ckpt_need(ask), slot)
    resume = _search(srv, slot, task, ask, found) if need.search else ResumePlace(found.cache, found.prompt)
    erase = srv.rules.ckpt_erase(slot.facts, ask._replace(restored=resume.restored))
    gone = slot.drop(srv.decide(erase, slot))
    srv.changed(slot, "erased", erase.rule, ALL_TOKENS)
    for c in (lost.facts for lost in gone):
        srv.emit(slot_ev.CkptInvalidate(
            slot.id, task.id, pos_min=c.pos_min, pos_max=c.pos_max, n_tokens=c.n_tokens, n_swa=0, pos_next=ask.n_past
        ))
    return resume


def _facts(srv: Core, slot: Slot, task: Task, found: CommonLength) -> RestoreInputs:
    """Return the facts of the checkpoint search. Lengths are those of positions, which are fewer after images with
    M-RoPE; the rules compare them with the positions of checkpoints."""
    pos_min, states = srv.cell_position(slot, srv.memory.pos_min(slot.id)), bool(srv.kind.states)
    n_past, held = (srv.position(slot.tokens, n) for n in (found.cache, len(slot.tokens)))
    prompt, asked = (srv.position(task.prompt, n) for n in (found.prompt, len(task.prompt)))
    return RestoreInputs(n_past, prompt, held, pos_min, states, srv.kind.private, asked)


def _search(srv: Core, slot: Slot, task: Task, ask: RestoreInputs, found: CommonLength) -> ResumePlace:
    """Restore a checkpoint, or start anew. Return where evaluation continues, in tokens."""
    srv.emit(slot_ev.CkptSearch(
        slot.id, task.id, n_past=found.cache, n_tokens=len(slot.tokens), seq_id=slot.id, pos_min=ask.pos_min, n_swa=0
    ))
    pick = srv.rules.ckpt_pick(slot.facts, ask)
    picked: int | None = srv.decide(pick, slot)
    if picked is None or not srv.memory.set(slot.id, slot.checkpoints[picked].blob):
        reset = srv.rules.ckpt_reset(ask)
        srv.emit(slot_ev.FullReprocess(slot.id, task.id))
        task.answer.deciding, slot.source = reset.rule, "slot"
        nothing: ResumePlace = srv.decide(reset, slot)
        if nothing.forget_tokens:
            slot.tokens.clear()
        return nothing
    srv.changed(slot, "overwritten", pick.rule)
    c = slot.checkpoints[picked].facts
    again: ResumePlace = srv.decide(srv.rules.ckpt_resume(c, ask), slot)
    slot.last_checkpoint = max(slot.last_checkpoint, again.last_checkpoint)
    again = _in_tokens(srv, slot, task, again)._replace(restored=c.pos_max)
    n_tokens = logged_tokens(srv, c)
    srv.emit(slot_ev.CkptRestore(
        slot.id,
        task.id,
        pos_min=c.pos_min,
        pos_max=c.pos_max,
        n_tokens=n_tokens,
        n_past=again.n_past,
        mib=ev.mib(c.size),
    ))
    task.answer.deciding, slot.source = pick.rule, "checkpoint"
    return again


def _in_tokens(srv: Core, slot: Slot, task: Task, resume: ResumePlace) -> ResumePlace:
    """Return lengths in tokens instead of positions."""
    if not srv.has_media_positions:
        return resume
    cache = srv.decide(srv.rules.media.resume(slot.tokens, resume.n_past, True), slot)
    prompt = srv.rules.media.resume(task.prompt, resume.n_past_prompt, True).value
    return resume._replace(n_past=cache, n_past_prompt=prompt)
