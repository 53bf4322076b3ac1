"""The server's contexts: which model each of them has; and the decisions that a server makes at its start."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from cachesim.engines.llama_cpp.decode import post_decode
from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit, BuildTraits, DecodeBatch
from cachesim.engines.llama_cpp.slot import State
from cachesim.model import TokenRun, make_model
from tests.unit.engines.llama_cpp.talk import Talk, word
from tests.unit.model.plain_store import PlainStore


@pytest.mark.parametrize("mode", ["provenance", "exact"])
def test_a_draft_model_has_rows_of_its_own_weights(mode):
    """Its seed is two after that of the target; one after it is that of an MTP head."""
    talk = Talk("A", "b11549", mode, spec_type="draft-simple", model_draft="AA")
    talk.ask(word("a", 20))
    target, draft = talk.server.core.context.model, talk.server.core.dft.memory.parts["base"]
    store = PlainStore()
    store.begin(runs := [TokenRun(0, 0, word("a", 20))])
    make_model("AA", mode == "exact", target.seed + 2).forward(runs, store)
    assert np.array_equal(draft.rows[draft.stream(0)][0].digest[:20], store.rows_of(0, 0).digest)


def test_a_draft_model_has_no_rollback_planes():
    talk = Talk("A", "b11549", "none", spec_type="draft-simple", model_draft="GA")
    assert (talk.server.core.dft.memory.sizes.n_rs_seq, talk.server.core.dft.memory.recr.n_rs_seq) == (0, 0)


@pytest.mark.parametrize(("build", "plane", "saved"), [
    ("b11549", 2, 1), ("pr29117-on-b9230", 1, 1), ("22673-draft", 2, -1),
])  # fmt: skip
def test_the_planes_of_a_memory_are_those_of_the_build(build, plane, saved):
    traits = Talk("GA", build, "none").server.core.memory.traits
    assert (traits.plane(2, 0, 1, 3), traits.saved_plane(1)) == (plane, saved)


def decided_at_start(kind, build, **flags):
    """Return the value and the inputs of each decision of a server at its start, by rule."""
    talk = Talk(kind, build, "none", **flags)
    return {event.rule: (event.value, dict(event.because)) for event in talk.log.events if event.ev == "decided"}


@pytest.mark.parametrize(("build", "faults"), [
    ("b10587", []), ("b6388", ["LC-KV-MASK.MODEL"]), ("b5913", ["LC-KV-TURN.FIRST"]), ("b5735", ["LC-KV-POS.SET"]),
    ("b5630", ["LC-KV-POS.SET", "LC-BATCH-CHECK.NONE"]), ("b4579", ["LC-BATCH-CHECK.NONE"]),
    ("b3642", ["LC-RS-TAIL.STALE", "LC-BATCH-CHECK.NONE"]),
])  # fmt: skip
def test_a_fault_of_the_memory_is_a_decision_of_the_builds_that_have_it(build, faults):
    kinds = ("LC-KV-TURN", "LC-KV-MASK", "LC-KV-POS", "LC-RS-TAIL", "LC-BATCH-CHECK")
    assert [rule for rule in decided_at_start("A", build) if rule.startswith(kinds)] == faults


@pytest.mark.parametrize(("kind", "flags", "inputs"), [
    ("W", {"parallel": 2, "ctx_size": 1024, "swa_full": True}, {
        "LC-N-SWA.FULL0": (0, {"n_swa": 8, "swa_full": True}), "LC-SPEC-ON.ANY": (True, {"exact": False}),
        "LC-CTX-POOL.PER-SLOT": (1024, {"n_ctx": 1024, "n_slots": 2, "per_slot": 0}),
        "LC-SLOT-CTX.CAPPED": (512, {"n_ctx_seq": 512, "n_slots": 2, "per_slot": 0})}),
    ("W", {"parallel": 2, "ctx_size": 512, "kv_unified": True}, {
        "LC-N-SWA.FULL0": (8, {"n_swa": 8, "swa_full": False}),
        "LC-RS-SPLIT.TAIL": (BatchSplit(False, False, 0), {"n_rs_seq": 0, "unified": True})}),
    ("R", {"parallel": 2, "kv_unified": True}, {
        "LC-SPEC-ON.ANY": (True, {"exact": True}),
        "LC-RS-SPLIT.TAIL": (BatchSplit(False, True, 0), {"n_rs_seq": 0, "unified": True})}),
    ("GA+M", {"parallel": 2, "spec_type": "draft-mtp", "spec_draft_n_max": 3, "ubatch_size": 16}, {
        "LC-RS-PLANES.MTP": (3, {"spec_type": "draft-mtp", "n_max": 3, "can": True}),
        "LC-RS-SPLIT.TAIL": (BatchSplit(False, True, 4), {"n_rs_seq": 3, "unified": False})}),
    ("A", {"spec_type": "ngram-simple,ngram-mod", "spec_draft_n_max": 2}, {
        "LC-RS-PLANES.MTP": (0, {"spec_type": "ngram-simple", "n_max": 2, "can": False})}),
])  # fmt: skip
def test_the_inputs_of_the_decisions_at_the_start(kind, flags, inputs):
    found = decided_at_start(kind, "b11549", **flags)
    assert {rule: found[rule] for rule in inputs} == inputs


@pytest.mark.parametrize(("kind", "unified", "shared"), [
    ("W", True, True), ("HW", True, True), ("W", False, False), ("A", True, False), ("H", True, False),
])  # fmt: skip
def test_slots_share_a_window_in_a_unified_cache(kind, unified, shared):
    assert Talk(kind, parallel=2, kv_unified=unified, ctx_size=512).server.core.window_is_shared is shared


NAMES = [field.name for field in fields(BuildTraits)]
USUAL = {name for name in NAMES if getattr(BuildTraits(), name) is True}


@pytest.mark.parametrize(("build", "more", "less"), [
    ("b11549", "purge_stays fail_undoes", ""), ("b10587", "purge_stays", ""),
    ("b6388", "purge_stays together mask_model", ""),
    ("b5913", "purge_stays together turn_first", ""),
    ("b5735", "purge_stays together pos_set", ""),
    ("b4579", "purge_stays together unchecked", "full_forgets"),
    ("b3642", "purge_stays together tail_stays unchecked", "full_forgets"),
    ("b11549-repaired", "fail_undoes", "all"),
])  # fmt: skip
def test_the_memory_of_a_server_has_the_traits_of_its_build(build, more, less):
    traits = Talk("A", build, "none").server.core.memory.traits
    lost = {"copy_waits", "full_forgets", "shared_stays", "shift_dies"} if less == "all" else {*less.split()}
    assert {name for name in NAMES if getattr(traits, name) is True} == USUAL - lost | {*more.split()}


def test_requests_that_end_are_counted_and_a_single_completion_is_no_decision():
    talk = Talk("A", "b11549", "none", parallel=2)
    for n, ended in ((1, 1), (1, 2), (2, 4)):
        talk.ask(word("a", 20), n_cmpl=n)
        assert (talk.server.core.ended, talk.server.core.empty_rounds) == (ended, 0)
    decided = [event.because["n"] for event in talk.log.events if event.ev == "decided" and "CHILDREN." in event.rule]
    assert len(decided) == 1


def test_a_slot_whose_token_was_sampled_has_no_place_in_a_batch():
    talk = Talk("A", "b11549", "none")
    talk.send(word("a", 20), 4)
    talk.server.iterate()
    slot = talk.server.core.slots[0]
    assert (slot.state, slot.i_batch, slot.n_gen, slot.prompt_span) == (State.GENERATING, -1, 1, (0, 20))


def generating(**flags):
    """A server whose first slot has generated a token."""
    talk = Talk("A", "b11549", "none", parallel=2, **flags)
    talk.send(word("a", 20), 9, id_slot=0)
    talk.server.iterate()
    return talk.server.core, talk.server.core.slots[0]


@pytest.mark.parametrize(("place", "off", "n", "sampled"), [
    (1, 0, 1, False), (1, 0, 2, True), (1, 1, 1, True), (1, 2, 1, False), (0, 0, 1, True),
])  # fmt: skip
def test_a_slot_is_sampled_in_the_view_that_has_its_place(place, off, n, sampled):
    core, slot = generating()
    slot.i_batch = place
    post_decode(core, off, n)
    assert (slot.n_gen, slot.i_batch) == ((2, -1) if sampled else (1, place))


@pytest.mark.parametrize(("place", "deferred"), [(-1, True), (0, False), (3, False)])
def test_a_token_is_deferred_unless_another_slot_has_a_place_in_the_batch(place, deferred):
    core, slot = generating()
    view = DecodeBatch()
    view.add(slot.sampled, 20, 0, True)
    slot.tokens.append(slot.sampled)
    core.slots[1].i_batch = place
    assert core.defer_token(view) is deferred
