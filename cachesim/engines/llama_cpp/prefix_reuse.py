"""Start of a prompt: determines n_past, the number of prompt tokens that need not be evaluated.

Source: llama.cpp tools/server/server-context.cpp update_slots, state STARTED (3f545be).
"""

from __future__ import annotations

from dataclasses import replace

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.media_items import ends_at_image, item_at
from cachesim.base.tokens import POS_INF, common_prefix
from cachesim.engines.base import NO_ROOM, Request
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import cap_prefix, mark_rows, moves_chunks
from cachesim.engines.llama_cpp.memory.saved_state import StateReadError
from cachesim.engines.llama_cpp.rules.before_checkpoints import PromptCut
from cachesim.engines.llama_cpp.rules.checkpoint_facts import USED, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed
from cachesim.engines.llama_cpp.rules.context_shift import MovedBlock
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.rule import rule_id
from cachesim.engines.shared import slot_events as slot_ev


def begin_prompt(srv: Core, slot: Slot, task: Task) -> bool:
    """Settle n_past and cut the slot's tokens to it. Return False if the prompt is refused and the slot released."""
    request, prompt = task.request, task.request.prompt
    srv.emit(llama_ev.NewPrompt(
        slot.id, task.id, n_ctx_slot=srv.settings.n_ctx_slot, n_keep=request.n_keep or 0, n_tokens=len(prompt)
    ))
    slot.state = State.PROMPT
    room = srv.settings.n_ctx_slot
    fit = srv.rules.prompt_fit(len(prompt), room, request.n_keep or 0, srv.settings.context_shift)
    if isinstance(fit.value, str):
        srv.fail(slot, 400, fit.value, NO_ROOM, tokens=len(prompt), room=room)
        return False
    if fit.value is not None:
        request, prompt = _cut_prompt(srv, slot, task, srv.decide(fit, slot))
    whole = srv.rules.task_whole(request.kind, len(prompt), srv.settings.n_ubatch, srv.settings.flags.pooling)
    if whole.value:
        return _begin_unsplit(srv, slot, task, srv.decide(whole, slot) == "whole")
    lcp = common_prefix(slot.tokens, list(prompt))
    if item_at(prompt, lcp) is not None:
        lcp = srv.decide(srv.rules.media.lcp(prompt, lcp), slot)
    if request.shared:                   # the children start from the shared prefix
        lcp = min(lcp, request.shared)
    reuses = srv.rules.task_reuse(request.kind)
    reuse_asked = request.cache_prompt and srv.holds(reuses, slot)
    prefix = srv.rules.n_past(lcp, reuse_asked)
    task.answer.deciding = (prefix if reuses.value else reuses).rule
    slot.reused = n_past = reuse(srv, slot, task, cap_prefix(srv, slot, task, srv.decide(prefix, slot)))
    resume = _use_checkpoint(srv, slot, task, _prompt_facts(srv, slot, n_past, len(prompt)))
    needed = srv.rules.need_one(resume.n_past, len(prompt))
    n_past = srv.decide(needed, slot)
    if n_past != resume.n_past:
        srv.emit(slot_ev.NeedOne(slot.id, task.id, resume.n_past, len(prompt)))
    cut = srv.rules.media.cut(slot.tokens, n_past)
    if cut.value:
        srv.emit(slot_ev.Error(cut.value))
        srv.fail(slot, 500, srv.decide(cut, slot), "cut-inside-an-image")
        return False
    task.answer.reused = {slot.source: n_past}
    del slot.tokens[n_past:]
    mark_rows(slot)
    srv.changed(slot, "truncated", task.answer.deciding, lcp)
    return True


def _cut_prompt(srv: Core, slot: Slot, task: Task, cut: PromptCut) -> tuple[Request, tuple[int, ...]]:
    """Shorten a prompt that does not fit; return the request with the shorter prompt, and this prompt."""
    prompt = task.request.prompt
    prompt = (*prompt[: cut.keep], *prompt[cut.keep + cut.lose :])
    task.request = replace(task.request, prompt=prompt)
    slot.truncated, task.answer.prompt = True, prompt
    return task.request, prompt


def reuse(srv: Core, slot: Slot, task: Task, n_past: int) -> int:
    """Return the tokens to reuse: those of the common prefix and of moved blocks, images as a whole."""
    n_past = move_blocks(srv, slot, task, n_past)
    if ends_at_image(task.request.prompt, n_past):
        n_past = srv.decide(srv.rules.media.back(task.request.prompt, n_past), slot)
    return n_past


def move_blocks(srv: Core, slot: Slot, task: Task, n_past: int) -> int:
    """NPAST-REUSE: reuse blocks of the slot's tokens after the common prefix by shifting their positions to those in
    the prompt. Return the new n_past."""
    request = task.request
    least = srv.settings.n_cache_reuse if request.n_cache_reuse is None else request.n_cache_reuse
    if least <= 0 or not request.cache_prompt or not moves_chunks(srv, slot):
        return n_past
    if not srv.rules.media.moves(srv.memory.can_shift(), bool(srv.settings.projector)).value:
        srv.emit(llama_ev.ReuseUnsupported(slot.id, task.id))
        return n_past
    decision = srv.rules.reuse(slot.tokens, request.prompt, n_past, least, srv.settings.exact)
    moved: tuple[MovedBlock, ...] | None = srv.decide(decision, slot)
    if moved is None:
        srv.emit(llama_ev.ReuseUnsupported(slot.id, task.id))
        return n_past
    old = list(slot.tokens)
    srv.points.touch(slot.id, n_past)
    for block in moved:
        source, target = (block.c0, block.c0 + block.n), (block.p0, block.p0 + block.n)
        srv.emit(slot_ev.ReuseChunk(slot.id, task.id, block.n, *source, *target))
        srv.common_memory.must_rm(slot.id, block.p0, block.c0)
        end = POS_INF if block.open else block.c0 + block.n
        srv.common_memory.seq_add(slot.id, block.c0, end, block.p0 - block.c0)
        slot.tokens[block.p0 : block.p0 + block.n] = old[block.c0 : block.c0 + block.n]
        n_past += block.n
    srv.emit(llama_ev.ReuseResult(slot.id, task.id, n_past))
    return n_past


def _begin_unsplit(srv: Core, slot: Slot, task: Task, fits: bool) -> bool:
    """Start a prompt that must fit into a micro-batch: reuse nothing, ignore the slot's checkpoints. Return False if
    it does not fit (``fits``)."""
    if not fits:
        n, most = len(task.request.prompt), srv.settings.n_ubatch
        text = f"input ({n} tokens) is too large to process. increase the physical batch size"
        srv.fail(slot, 500, f"{text} (current batch size: {most})", "longer-than-a-micro-batch", tokens=n, most=most)
        return False
    task.answer.deciding, slot.reused = rule_id(srv.rules.task_whole), 0
    slot.tokens.clear()
    mark_rows(slot)
    srv.changed(slot, "truncated", task.answer.deciding)
    return True


def _prompt_facts(srv: Core, slot: Slot, n_past: int, n_tokens: int) -> PromptInputs:
    pos_min = srv.pos_min(slot)
    if 0 < n_past <= len(slot.tokens) and pos_min < 0:
        held = f"slot.prompt.tokens.size() = {len(slot.tokens)}"
        srv.emit(slot_ev.Error(f"n_past = {n_past}, {held}, seq_id = {slot.id}, pos_min = -1"))
        text = f"pos_min == -1, but n_past > 0 - should not happen (slot {slot.id}, n_past {n_past})"
        raise ProcessAborted(text, "no-rows-behind-a-prefix", slot=slot.id, n_past=n_past)
    pos_next, n_swa = srv.position(slot, n_past), srv.settings.n_swa
    return PromptInputs(
        n_past,
        pos_next,
        held=len(slot.tokens),
        n_tokens=n_tokens,
        pos_min=pos_min,
        n_swa=n_swa,
        exact=srv.settings.exact,
    )


def _use_checkpoint(srv: Core, slot: Slot, task: Task, facts: PromptInputs) -> ResumePlace:
    """Restore a checkpoint if the live memory cannot be used, and erase invalidated checkpoints."""
    resume = ResumePlace(facts.pos_next, facts.n_past)
    need: CheckpointNeed = srv.decide(srv.rules.ckpt_need(facts), slot)
    if need.search:
        resume = _search(srv, slot, task, facts, need.thold)
    erase, n_swa = srv.rules.ckpt_erase(slot.facts, facts, resume), srv.settings.n_swa
    for c in srv.drop(slot, erase, srv.rules.erase_told, "erased", facts.n_past):
        srv.emit(slot_ev.CkptInvalidate(slot.id, task.id, c.pos_min, c.pos_max, c.n_tokens, n_swa, resume.pos_next))
    return resume


def _reset(srv: Core, slot: Slot, task: Task, facts: PromptInputs) -> ResumePlace:
    """Apply rule LC-CKPT-RESET to a prompt for which no checkpoint can be restored."""
    reset = srv.rules.ckpt_reset(facts)
    srv.emit(slot_ev.FullReprocess(slot.id, task.id))
    task.answer.deciding, slot.source = reset.rule, "slot"
    resume: ResumePlace = srv.decide(reset, slot)
    if resume.forget:
        slot.checkpoints.clear()
        srv.changed(slot, "erased", reset.rule, facts.n_past)
    return resume


def _search(srv: Core, slot: Slot, task: Task, facts: PromptInputs, thold: int) -> ResumePlace:
    srv.emit(slot_ev.CkptSearch(
        slot.id,
        task.id,
        n_past=facts.n_past,
        n_tokens=facts.held,
        seq_id=slot.id,
        pos_min=facts.pos_min,
        n_swa=facts.n_swa,
    ))
    pick = srv.rules.ckpt_pick(slot.facts, facts, thold)
    found: int | None = srv.decide(pick, slot)
    for c in reversed(slot.facts[found or 0 :]):
        srv.emit(llama_ev.CkptCheck(slot.id, task.id, c.pos_min, c.pos_max, thold))
    if found is None:
        return _reset(srv, slot, task, facts)
    ckpt = slot.checkpoints[found]
    try:
        srv.memory.state_read(slot.id, ckpt.blob)
        if srv.dft is not None and ckpt.draft is not None:
            srv.dft.memory.state_read(slot.id, ckpt.draft)
    except StateReadError as error:
        for line in error.lines:
            srv.emit(slot_ev.Error(line))
        unread = srv.rules.ckpt_unread(ckpt.facts.id_task)
        last_words: str = srv.decide(unread, slot)
        if last_words:
            raise ProcessAborted(last_words, "checkpoint-unreadable") from error
        srv.changed(slot, "overwritten", unread.rule)    # part of it may have been read
        return _reset(srv, slot, task, facts)
    srv.changed(slot, "overwritten", pick.rule)
    resume: ResumePlace = srv.decide(srv.rules.ckpt_restore(ckpt.facts, facts), slot)
    if srv.settings.projector:
        resume = srv.decide(srv.rules.media.resume(slot.tokens, ckpt.facts, resume, srv.kind.mrope), slot)
    c = srv.with_note(slot, ckpt.facts, USED, task)
    slot.checkpoints[found] = replace(ckpt, facts=c)
    srv.emit(slot_ev.CkptRestore(
        slot.id,
        task.id,
        pos_min=c.pos_min,
        pos_max=c.pos_max,
        n_tokens=c.n_tokens,
        n_past=resume.n_past,
        mib=ev.mib(c.size),
    ))
    task.answer.deciding, slot.source = pick.rule, "checkpoint"
    return resume
