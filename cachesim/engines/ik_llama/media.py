"""Images of a prompt: evaluation before the batch, and the positions that the server uses.

The memory counts items. With M-RoPE the server's positions are fewer: ``Core.position`` converts. The axes of an image
are not simulated, nor is the zeroing of recurrent rows by every micro-batch of an image at the start of a prompt: both
are equal on an empty server. Source: ik_llama.cpp examples/server/server-context.cpp batch_pending_prompt,
examples/server/server-common.cpp process_chunk, examples/mtmd/mtmd-helper.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.base.media_items import item_at
from cachesim.engines.base import NO_ROOM
from cachesim.engines.ik_llama.memory.context import ABORTED, OK
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, Task
from cachesim.engines.ik_llama.speculative_decoding import warm_up
from cachesim.engines.rule import rule_id
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.images import NONCAUSAL


def decode_image(srv: Core, slot: Slot, task: Task) -> bool:
    """Evaluate the image at which the prompt continues, if there is one. Return False if it failed: the slot then
    ends before the image and tries it again."""
    inside = item_at(task.prompt, slot.n_prompt)
    if inside is None:
        return True
    check_image(srv, slot, 0, inside.number)
    items = task.prompt[slot.n_prompt : slot.n_prompt + inside.n_tokens]
    place = srv.rules.media.place(len(slot.tokens), slot.n_prompt)
    at = place.value if place.value == len(slot.tokens) else srv.decide(place, slot)
    srv.emit(slot_ev.MediaEncode(slot.id, task.id, slot.n_prompt, 1))
    slot.tokens.extend(items)
    ret = _decode(srv, slot, items, at)
    if ret != OK:
        del slot.tokens[-len(items) :]
        _fail(srv, slot, task, ret)
        return False
    slot.n_prompt += len(items)
    task.answer.prompt_n += len(items)
    slot.after_image = True
    return True


def _decode(srv: Core, slot: Slot, items: Sequence[int], start: int) -> int:
    """Evaluate the items of an image from position ``start`` on, in pieces of n_batch items. Return the result of the
    last piece."""
    n_batch = srv.settings.n_batch
    pieces = range(0, len(items), n_batch)
    for number, at in enumerate(pieces, 1):
        batch, piece = DecodeBatch(), items[at : at + n_batch]
        batch.extend(piece, start + at, slot.id)
        srv.emit(slot_ev.MediaDecode(number, len(pieces), len(piece)))
        fits = srv.rules.media.fits(len(piece), srv.settings.n_ubatch, srv.settings.projector == NONCAUSAL)
        if fits.value:
            raise ProcessAborted(srv.decide(fits, slot), "image-longer-than-a-micro-batch", n_tokens=len(piece))
        srv.log.spend(*cost_of(srv.context.model, len(piece), srv.settings.n_ubatch, sum(batch.pos)))
        ret = srv.context.decode(batch, srv.is_stopped, image=True)
        if ret != OK:
            return ret
        warm_up(srv, slot, view=batch, first=0, stop=len(piece))
        srv.evaluated(rule_id(srv.rules.ckpt_create))
    return OK


def _fail(srv: Core, slot: Slot, task: Task, ret: int) -> None:
    """Report an image that failed: the client has its answer, and the slot continues. A client that stopped the
    evaluation does not stop it again."""
    failure = srv.rules.media.fails(ret)
    text: str = srv.decide(failure, slot)
    srv.emit(slot_ev.Error(f"{text}, res = {ret}"))
    srv.image_failed = True
    if ret == ABORTED:
        for one in srv.slots:
            if one.task is not None and srv.has_left(one):
                one.task.is_stopped = one.task.answer.cancelled = True
    if not task.answer.cancelled:
        srv.fail(slot, text, NO_ROOM)
        task.answer.id_slot, task.answer.done = slot.id, True
        task.answer = replace(task.answer, tokens=[], outputs=[], shifts=[])   # the rest is not read


def check_image(srv: Core, slot: Slot, token: int, number: int) -> None:
    """Raise ProcessAborted if a token, or an item of an image, only looks like the start of an image."""
    null = srv.rules.media.null(token, number)
    if null.value:
        raise ProcessAborted(srv.decide(null, slot), "no-image-there")


def check_cut(srv: Core, slot: Slot, tokens: Sequence[int], n: int) -> None:
    """Raise ProcessAborted if a list with images cannot be cut to its first ``n`` tokens."""
    cut = srv.rules.media.cut(tokens, n) if srv.settings.projector else None
    if cut is not None and cut.value:
        raise ProcessAborted(srv.decide(cut, slot), "cut-inside-an-image")
