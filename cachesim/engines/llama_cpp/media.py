"""Images of a prompt: evaluation before the batch, and the positions that the server sees.

The memory counts items. With 2-D positions (M-RoPE) the server's positions are fewer: ``Core.position`` translates.
Source: llama.cpp tools/server/server-context.cpp pre_decode, process_mtmd_chunk; tools/mtmd/mtmd-helper.cpp (b11549).
"""

from __future__ import annotations

from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import identities, under
from cachesim.base.media_items import is_item, item_at, longest_image
from cachesim.engines.base import NO_ROOM
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import key_of_scales, refuse
from cachesim.engines.llama_cpp.memory.context import OK
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.rules.adapters import Scales
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.llama_cpp.speculative_decoding import DrafterFailed, decode_in_draft
from cachesim.engines.rule import rule_id
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.images import NONCAUSAL

DRAFT_FAILED = 2             # code of a piece that the draft context could not process
LOGGED = {DRAFT_FAILED: 1}   # codes that the server logs as another


def is_admitted(srv: Core, task: Task) -> bool:
    """True if a task may have a slot. Rules of proposals refuse some before."""
    prompt, rules = task.request.prompt, srv.rules
    if not prompt:
        return True
    if min(prompt) < 0:
        text = srv.decide(rules.task_first(min(prompt)), None)
        if text:
            return refuse(srv, task, text, "invalid-tokens")
    if is_item(max(prompt)):
        if is_item(prompt[-1]):
            text = srv.decide(rules.media.last(prompt), None)
            if text:
                return refuse(srv, task, text, "prompt-ends-with-an-image")
        longest = longest_image(prompt)
        if srv.settings.projector == NONCAUSAL and longest > srv.settings.n_ubatch:
            size = rules.media.size(longest, srv.settings.n_batch, srv.settings.n_ubatch)
            text = srv.decide(size, None)
            if text:
                return refuse(srv, task, text, "image-longer-than-a-micro-batch")
    return True


def decode_images(srv: Core, slot: Slot, task: Task) -> int | None:
    """MEDIA-ITER: evaluate the images at which the prompt continues. Return their number, None if one of them failed
    and the slot was released."""
    prompt = task.request.prompt
    number = 0
    start = len(slot.tokens)
    while (image := item_at(prompt, start)) is not None:
        srv.emit(slot_ev.MediaEncode(slot.id, task.id, start, 1))
        items = prompt[start : start + image.n_tokens]
        if srv.adapters:
            items = tuple(under(items, key_of_scales(_adapters_of_image(srv, slot, task))))
        slot.tokens.extend(items)
        if not _decode(srv, slot, task, start):
            return None
        task.answer.prompt_n += len(items)
        number += 1
        start = len(slot.tokens)
    return number


def _adapters_of_image(srv: Core, slot: Slot, task: Task) -> Scales:
    """Return the scales under which an image is evaluated (rule LC-MEDIA-LORA)."""
    chosen = srv.rules.media.adapters(srv.in_force, slot.adapters)
    scales: Scales = srv.decide(chosen, slot)
    if scales != slot.adapters:
        task.answer.deciding = chosen.rule
    return scales


def _decode(srv: Core, slot: Slot, task: Task, start: int) -> bool:
    """Evaluate the image in the slot from ``start`` on, in pieces of n_batch items. Return False if the request
    failed: the slot then ends before the image."""
    n_batch, items = srv.settings.n_batch, slot.tokens[start:]
    pieces = range(0, len(items), n_batch)
    for number, at in enumerate(pieces, 1):
        batch, piece = DecodeBatch(), items[at : at + n_batch]
        batch.extend(identities(piece), start + at, slot.id)
        srv.emit(slot_ev.MediaDecode(number, len(pieces), len(piece)))
        noncausal = srv.settings.projector == NONCAUSAL
        fits = srv.rules.media.fits(len(piece), srv.settings.n_ubatch, noncausal)
        if fits.value:
            raise ProcessAborted(srv.decide(fits, slot), "image-longer-than-a-micro-batch", n_tokens=len(piece))
        ret = _decode_piece(srv, batch)
        while ret not in (OK, DRAFT_FAILED):
            tries_again = srv.decide(srv.rules.media.again(ret), slot)
            if not tries_again or not purge_idle(srv):
                break
            ret = _decode_piece(srv, batch)
        if ret != OK:
            del slot.tokens[start:]
            _fail(srv, slot, task, start, ret)
            return False
    return True


def _decode_piece(srv: Core, batch: DecodeBatch) -> int:
    srv.flush_deferred()
    for seq, first in srv.context.memory.pending():
        srv.points.touch(seq, first)
    ret = srv.context.decode(batch)
    if ret == OK:
        srv.log.spend(*cost_of(srv.context.model, len(batch), srv.settings.n_ubatch, sum(batch.pos)))
        srv.evaluated(rule_id(srv.rules.ckpt_create))
        try:
            decode_in_draft(srv, batch)
        except DrafterFailed:
            return DRAFT_FAILED
    return ret


def purge_idle(srv: Core) -> bool:
    """If rule LC-IDLE-PURGE allows it, clear the first idle slot that is not empty, without saving it. Return True
    if a slot was cleared."""
    if not srv.decide(srv.rules.idle_purge(srv.settings.unified), None):
        return False
    for slot in srv.slots:
        if slot.tokens and (not slot.busy or _gives_way(srv, slot)):
            srv.emit(llama_ev.SlotPurge(slot.id, len(slot.tokens)))
            srv.clear(slot)
            return True
    return False


def _gives_way(srv: Core, slot: Slot) -> bool:
    """True if a slot whose request waits is cleared: only if no idle slot is left (rule LC-WAIT)."""
    if slot.state not in (State.STARTED, State.WAITING) or any(one.tokens for one in srv.slots if not one.busy):
        return False
    return bool(srv.decide(srv.rules.waiting(len(slot.tokens)), slot))


def _fail(srv: Core, slot: Slot, task: Task, start: int, ret: int) -> None:
    """MEDIA-KV: fail the request."""
    failure = srv.rules.media.fails(ret)
    text: str = srv.decide(failure, slot)
    srv.emit(slot_ev.Error("post-decode callback failed" if ret == DRAFT_FAILED else "failed to decode image"))
    ret = LOGGED.get(ret, ret)
    srv.emit(llama_ev.MediaError(slot.id, task.id, f"failed to decode mtmd chunk, idx = {start}, res = {ret}"))
    srv.emit(llama_ev.MediaError(slot.id, task.id, f"{text}, res = -1"))
    srv.fail(slot, 500, text, NO_ROOM)
