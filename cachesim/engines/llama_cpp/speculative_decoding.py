"""Speculative decoding: drafts are added to the batch, verified, and rejected tokens are removed.

Drafts are forced: a request states what is drafted where, and how many drafted tokens are accepted.
Source: llama.cpp tools/server/server-context.cpp update_slots, post_decode (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import Output
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import keyed
from cachesim.engines.llama_cpp.memory.context import BAD_BATCH, NO_ROOM, OK, Context, no_slot_line
from cachesim.engines.llama_cpp.memory.saved_state import Blob, RecurrentState, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, runs_of
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, SpecCkpt, State, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import join_runs
from cachesim.engines.shared.vocab import forced_draft
from cachesim.model import HiddenOutput
from cachesim.model.forward import before, carried


class DrafterFailed(Exception):
    """The draft context could not process a view: an exception that ends the iteration."""


@dataclass(slots=True)
class Draft:
    """A draft that is being made. ``accepted`` of its ``drafted`` tokens will be accepted; ``steps``: number of tokens
    that the drafter evaluates for it, at least ``drafted``."""

    slot: Slot
    task: Task
    drafted: int
    accepted: int
    steps: int


def make_drafts(srv: Core, slots: Iterable[Slot]) -> None:
    """Draft for the generating slots among these, and save the states that rejections would need."""
    drafts = [draft for slot in slots if (draft := _planned(srv, slot)) is not None]
    if srv.dft is not None and drafts:
        _end_where_drafter_fails(srv, srv.dft, drafts)
    for draft in drafts:
        if draft.drafted > 0:
            _make_draft(srv, draft)


def _planned(srv: Core, slot: Slot) -> Draft | None:
    """Return what the request states about a slot's next draft, None if the server makes none."""
    task, held = slot.task, len(slot.tokens)
    if task is None or slot.state is not State.GENERATING or not srv.settings.drafts or slot.replay:
        return None
    slot.draft = []
    request = task.request
    share = max(srv.settings.n_batch // srv.settings.n_slots, 1)        # the batch has at least a token per slot
    limit = srv.rules.draft_max(held, srv.settings.n_ctx_slot, request.n_predict, slot.n_gen, share)
    most: int = srv.decide(limit, slot)
    if most <= 0:
        return None
    plan = next((d for d in request.drafts if d.at == held), None)
    drafted = max(0, min(most, plan.drafted if plan else request.draft_else))
    accepted = min(drafted, plan.accepted) if plan else drafted
    return Draft(slot, task, drafted=drafted, accepted=accepted, steps=_drafter_steps(srv, drafted, most))


def _drafter_steps(srv: Core, drafted: int, most: int) -> int:
    """Return the number of tokens that a drafter evaluates for a draft: all that it may draft, or one more than it
    drafts if it gives up earlier. An MTP head does not know what the context and n_predict leave (``most``)."""
    longest = srv.settings.flags.spec_draft_n_max
    allowed = longest if srv.settings.mtp else min(longest, most)
    return max(drafted, allowed if drafted == most else min(drafted + 1, allowed))


def _end_where_drafter_fails(srv: Core, drafter: Context, drafts: Sequence[Draft]) -> None:
    """End the drafts before the step that the drafter cannot evaluate: it finds too few cells, or, at the first, does
    not continue the contents of the drafter's memory."""
    if srv.rules.spec_full(1, 0).value is None:
        return
    first = DecodeBatch()
    for draft in drafts:
        first.add(draft.slot.sampled, len(draft.slot.tokens), draft.slot.id, True)
    if not drafter.accepts(first):
        _end(srv, drafts, 0, BAD_BATCH)
        return
    steps = max(draft.steps for draft in drafts)
    if drafter.memory.has_room(_cells_after(steps, drafts)):
        return
    room = next(k for k in range(steps) if not drafter.memory.has_room(_cells_after(k + 1, drafts)))
    at: int = srv.decide(srv.rules.spec_full(steps, room), None)
    srv.emit(slot_ev.Warn(no_slot_line(sum(1 for draft in drafts if draft.steps > at))))
    _end(srv, drafts, at, NO_ROOM)


def _end(srv: Core, drafts: Iterable[Draft], at: int, code: int) -> None:
    """End the drafts after ``at`` tokens: the drafter's next call returned ``code``."""
    line = srv.rules.failed_drafter
    text = line.text_of(at, code, srv.settings.mtp)
    srv.emit(slot_ev.Warn(text) if line.kind == "warn" else slot_ev.Error(text))
    for draft in drafts:
        draft.drafted = min(draft.drafted, at)
        draft.accepted = min(draft.accepted, at)


def _cells_after(step: int, drafts: Iterable[Draft]) -> dict[int, int]:
    """Return the number of drafted tokens of each slot in the drafter's memory after so many steps."""
    return {draft.slot.id: min(step, draft.steps) for draft in drafts}


def _make_draft(srv: Core, draft: Draft) -> None:
    """Put a draft into its slot, and save the state that a rejection would need."""
    slot, task, held = draft.slot, draft.task, len(draft.slot.tokens)
    saved = SpecCkpt(held, srv.pos_min(slot), srv.pos_max(slot))
    if srv.dft is not None and srv.dft.memory.recr is not None:
        saved.dft = srv.dft.memory.state_write(slot.id, partial=True)
    sure = [*slot.tokens, slot.sampled]
    slot.draft = forced_draft(srv.sampler, sure, task.request, slot.n_gen, draft.accepted, draft.drafted)
    task.answer.draft_n += draft.drafted
    if srv.decide(srv.rules.spec_ckpt(srv.settings.exact, srv.settings.sizes.n_rs_seq, draft.drafted), slot):
        saved.tgt = _saved_state(srv, slot)
        srv.emit(llama_ev.SpecCkpt(slot.id, slot.id_task, pos_min=saved.pos_min, pos_max=saved.pos_max, n_tokens=held))
    slot.spec_ckpt = saved


def _home(srv: Core, slot: Slot) -> int | None:
    """Return the recurrent cell from and to which the state before a draft is copied (rule LC-SPEC-PLACE), None =
    that of the sequence."""
    place, recr = srv.rules.spec_place(slot.id), srv.memory.recr
    if place.value or recr is None:
        return None
    home = srv.first_cells.setdefault(slot.id, recr.meta.tail[slot.id])
    if home == recr.meta.tail[slot.id]:
        return None
    srv.decide(place, slot)
    return home


def _saved_state(srv: Core, slot: Slot) -> Blob:
    """Return the state that a rejection would restore."""
    blob, home = srv.memory.state_write(slot.id, partial=True), _home(srv, slot)
    if home is None or blob.recr is None or srv.memory.recr is None:
        return blob
    return replace(blob, recr=RecurrentState(blob.recr.pos, dict(srv.memory.recr.rows[home])))


def decode_in_draft(srv: Core, view: DecodeBatch) -> None:
    """Evaluate in the draft context a view that the target has evaluated. Raise DrafterFailed if the draft memory does
    not end where the view begins."""
    if srv.dft is None:
        return
    ret = srv.dft.decode(view, _hidden_before(srv, view) if srv.settings.mtp else None)
    if ret != OK:
        srv.emit(slot_ev.Error(f"failed to decode draft batch, ret = {ret}"))
        raise DrafterFailed("failed to process speculative batch")


def _hidden_before(srv: Core, view: DecodeBatch) -> HiddenOutput | None:
    """Return the target model's hidden state before each token of the view, and carry the last state over to the next
    view."""
    hidden = srv.context.hidden
    if hidden is None:
        return None
    parts = []
    for start, stop in runs_of(view):
        seq = view.seq[start]
        parts.append(before(hidden.part(start, stop), srv.carried.get(seq)))
        srv.carried[seq] = carried(hidden, stop - 1)
    return join_runs(parts)


def verify(srv: Core, slot: Slot, task: Task) -> list[int] | None:
    """Compare the draft with the sampled tokens. Return the tokens to emit, None if the batch must be replayed."""
    held = len(slot.tokens) - len(slot.draft)                  # sampled included
    ids = _accepted(srv, slot, task, held)
    n_rollback = len(slot.draft) + 1 - len(ids)
    if srv.decide(srv.rules.spec_replay(srv.settings.exact, srv.settings.sizes.n_rs_seq, n_rollback), slot):
        _restore_before_draft(srv, slot, ids)
        return None
    for k in range(len(ids)):
        output = srv.outputs.get(slot.i_batch + k)
        if output is not None:
            task.answer.outputs.append(Output(held - 1 + k, output.digest, output.logits))
    slot.tokens[held:] = keyed(srv, ids[:-1])
    srv.points.touch(slot.id, held)
    last = slot.i_batch - srv.view[0] + len(ids) - 1
    if srv.settings.mtp and last >= 0 and (hidden := srv.context.hidden) is not None:
        srv.carried[slot.id] = carried(hidden, last)
    srv.common_memory.must_rm(slot.id, len(slot.tokens))
    return ids


def _accepted(srv: Core, slot: Slot, task: Task, held: int) -> list[int]:
    """Return the sampled tokens up to the first rejection. Raise ProcessAborted if an output lies in another view of
    the batch."""
    ids: list[int] = []
    for k in range(len(slot.draft) + 1):
        if not srv.view[0] <= slot.i_batch + k < srv.view[1]:
            raise ProcessAborted("GGML_ASSERT(logits != nullptr) failed", "output-of-another-view")
        ids.append(srv.sampler(slot.tokens[: held + k], task.request, slot.n_gen + k))
        left = len(slot.draft) - k
        if left:
            acceptance = srv.rules.spec_accept(ids[k] == slot.draft[k], ids[k] in task.request.eog, left - 1)
            if not srv.holds(acceptance, slot):
                break
    return ids


def _restore_before_draft(srv: Core, slot: Slot, ids: list[int]) -> None:
    """Restore the state before the draft; the accepted tokens become the next draft. If the state finds no free cells,
    the process ends (raises ProcessAborted) or every running request fails, as the rule says."""
    ckpt = slot.spec_ckpt
    assert ckpt is not None
    srv.emit(llama_ev.SpecRestore(slot.id, slot.id_task, ckpt.pos_min, ckpt.pos_max))
    of_draft = False
    try:
        if ckpt.tgt is not None:
            srv.memory.state_read(slot.id, ckpt.tgt, _home(srv, slot))
        of_draft = True
        if ckpt.dft is not None and srv.dft is not None:
            srv.dft.memory.state_read(slot.id, ckpt.dft)
    except StateReadError as error:
        for line in error.lines:
            srv.emit(slot_ev.Error(line))
        raise ProcessAborted(srv.decide(srv.rules.spec_unread(of_draft), slot), "draft-not-undone") from error
    spared = ckpt.n_tokens - srv.position(slot, ckpt.n_tokens)         # by images with 2-D positions
    srv.common_memory.must_rm(slot.id, ckpt.pos_max + 1 + spared)
    del slot.tokens[ckpt.n_tokens :]
    srv.points.touch(slot.id, ckpt.n_tokens)
    slot.draft, slot.replay = ids, True
