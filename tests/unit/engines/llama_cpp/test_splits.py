"""Splits of batches for recurrent memories by build, and the time at which rows are copied between buffers."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.profiles import LINE, PROFILES
from cachesim.engines.rule import Decision
from tests.unit.engines.llama_cpp.talk import Talk, word

MTP = {"spec_type": "draft-mtp", "spec_draft_n_max": 3}
# first rule set: hybrid with three planes, separate buffers and a common buffer; without planes; recurrent layers only
SINCE = {
    "b1573": (
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
    ),
    "b5833": (
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0, True),
    ),
    "b5913": (
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
    ),
    "b6740": (
        BatchSplit(False, True, 0),
        BatchSplit(False, True, 0),
        BatchSplit(False, True, 0),
        BatchSplit(False, True, 0),
    ),
    "b8916": (
        BatchSplit(False, True, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, True, 0),
    ),
    "b9473": (
        BatchSplit(True, True, 0),
        BatchSplit(True, False, 0),
        BatchSplit(False, False, 0),
        BatchSplit(False, True, 0),
    ),
    "b10587": (
        BatchSplit(False, True, 4),
        BatchSplit(False, False, 4),
        BatchSplit(False, False, 0),
        BatchSplit(False, True, 0),
    ),
}


@pytest.mark.parametrize("name", LINE)
def test_splits_of_each_build(name):
    cut = PROFILES[name].rs_split
    known = [f"llama_cpp@{first}" for first in SINCE]
    since = next(one for one in reversed(LINE[: LINE.index(name) + 1]) if one in known)
    found = tuple(cut(*of).value for of in ((3, True, False), (3, True, True), (0, True, True), (0, False, True)))
    assert found == SINCE[since.removeprefix("llama_cpp@")]


def seen(talk):
    """Return a list to which the sequences of each later ubatch are appended."""
    out, memory = [], talk.server.core.memory
    apply = memory.apply

    def noting(placed):
        out.append([run.seq for run in placed.ubatch.runs])
        return apply(placed)

    memory.apply = noting
    return out


@pytest.mark.parametrize(("profile", "together"), [("b9231", True), ("b9765", False), ("b10587", True)])
def test_sequences_with_planes_share_a_ubatch_or_not(profile, together):
    talk = Talk("GGGA+M", profile=profile, parallel=2, ubatch_size=16, **MTP)
    both = [talk.send(word(name, 20), 4, id_slot=i) for i, name in enumerate("AB")]
    cut = seen(talk)
    talk.work()
    assert ([0, 1] in cut) is together
    assert [talk.right(answer) for answer in both] == [True, True]


@pytest.mark.parametrize(("profile", "right"), [("b9231", False), ("b9765", False), ("b10587", True)])
def test_an_end_of_a_batch_in_two_ubatches_leaves_stale_planes(profile, right):
    """D15: with ubatches of two tokens the last ubatch writes a plane of three. Since tails are kept, such a server
    aborts; ubatches of eight have room for a sampled token and three drafted tokens."""
    talk = Talk("GGGA+M", profile=profile, ubatch_size=8 if right else 2, batch_size=64, **MTP)
    answer = talk.ask(word("A", 20), 8, forced=word("r", 12), drafts=(Draft(20, 3, 0), Draft(21, 3, 1)))
    assert talk.right(answer) is right


def test_a_ubatch_that_cannot_hold_more_than_the_planes_ends_the_process_since_tails_are_kept():
    short = Talk("GGGA+M", ubatch_size=4, **MTP).ask(word("A", 20), 2)
    assert (short.died, short.error) == (True, "GGML_ASSERT(n_ubatch > n_keep_tail) failed")
    older = Talk("GGGA+M", profile="b9765", ubatch_size=4, **MTP).ask(word("A", 20), 2)
    assert (older.died, older.status) == (False, 200)


SLOTS = {"parallel": 3, "ctx_size": 768, "ubatch_size": 16}


@pytest.mark.parametrize(("profile", "shared"), [("b8450", False), ("b8916", True)])
def test_a_hybrid_with_one_buffer_takes_any_sequences_since_21224(profile, shared):
    talk = Talk("H", profile=profile, kv_unified=True, **SLOTS)
    both = [talk.send(word(name, 20), 3, id_slot=i) for i, name in ((0, "A"), (2, "B"))]
    cut = seen(talk)
    talk.work()
    assert ([0, 2] in cut) is shared
    assert [talk.right(answer) for answer in both] == [True, True]


@pytest.mark.parametrize(("profile", "slots", "error"), [
    ("b6685", (0, 2), "GGML_ASSERT(ggml_can_mul_mat(k, q)) failed"),
    ("b6685", (0, 1), ""),
    ("b7789", (0, 2), ""),
])  # fmt: skip
def test_buffers_of_their_own_and_ids_with_a_gap_ended_the_process_before_16442(profile, slots, error):
    talk = Talk("H", profile=profile, **SLOTS)
    both = [talk.send(word(name, 20), 3, id_slot=i) for i, name in zip(slots, "AB", strict=True)]
    talk.work()
    assert [(answer.died, answer.error) for answer in both] == [(bool(error), error)] * 2


def test_a_higher_id_in_front_of_a_lower_one_ended_the_process_before_16442():
    """Slot 1 generates, and its token comes before slot 0's prompt."""
    talk = Talk("H", profile="b6685", **SLOTS)
    first = talk.send(word("A", 20), 8, id_slot=1)
    for _ in range(3):
        talk.server.iterate()
    talk.ask(word("B", 20), 2, id_slot=0)
    assert first.error == "GGML_ASSERT(ubatch.seq_id [s*n_tokens][0] == seq_id) failed"


@pytest.mark.parametrize("waits", [True, False])
def test_rows_of_a_copy_wait_for_the_next_decode(waits):
    """llama-delayed-copy-overwrites-load: rows loaded in between are overwritten only if the copy is deferred."""
    rules = {"kv_copy": lambda: Decision(waits, {}, "LC-KV-COPY.TEST")}
    talk = Talk("A", rules={} if waits else rules, parallel=2, ctx_size=1024, ubatch_size=16)
    A = word("A", 30)
    talk.ask(A, id_slot=1)
    talk.ask(word("B", 9), id_slot=1, n_cmpl=2)
    again = talk.ask(A + word("C", 5))
    assert (again.cache_n, talk.right(again)) == (30, not waits)


def test_rows_wait_in_every_build():
    assert {PROFILES[name].kv_copy.rule for name in LINE} == {"LC-KV-COPY.LATER"}
