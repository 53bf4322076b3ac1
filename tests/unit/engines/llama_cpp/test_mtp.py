"""MTP head: contents of its context, and the effect of a restore on it."""

import numpy as np
import pytest

from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp.memory.cell_ranges import as_array
from cachesim.model import TokenRun, make_model
from cachesim.model.forward import before, mtp_head
from tests.unit.engines.llama_cpp.talk import Talk, word
from tests.unit.model.plain_store import PlainStore, joined, prefill, same_rows

A, B = word("A", 40), word("B", 20)
MODES = ("provenance", "exact")


def cold_rows(talk, tokens):
    """Return the head's rows after trunk and head read the tokens once, from an empty memory."""
    trunk = talk.server.core.context.model
    head, store = mtp_head(trunk), PlainStore()
    store.begin(runs := [TokenRun(0, 0, tokens)])
    head.forward(runs, store, [before(prefill(trunk, PlainStore(), 0, tokens, 8), None)])
    return store.rows_of(0, 0)


def held_rows(talk, slot=0):
    """Return the rows in the draft context of a slot, by position."""
    attn = talk.server.core.dft.memory.parts["base"]
    cells = as_array(attn.cells(slot).of(slot))
    cells = cells[np.argsort(attn.cells(slot).pos[cells])]
    rows = attn.rows[attn.stream(slot)][0]
    return type(rows)(*(None if x is None else x[cells] for x in rows))


def differing(talk, slot=0):
    """Return the positions at which the head's rows differ from those of a cold run."""
    tokens = talk.server.core.slots[slot].tokens
    held, cold = held_rows(talk, slot), cold_rows(talk, tokens)
    assert len(held.digest) == len(tokens)
    return np.flatnonzero(held.digest != cold.digest).tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("accepted", [0, 1, 3])
def test_the_head_follows_the_trunk_through_drafts(mode, accepted):
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8, mode=mode)
    answer = talk.ask(A, 8, forced=B, drafts=(Draft(40, 3, accepted), Draft(41 + accepted, 2, 1)))
    assert talk.right(answer) is True
    assert same_rows(held_rows(talk), cold_rows(talk, talk.server.core.slots[0].tokens))


@pytest.mark.parametrize("n_ubatch", [5, 7, 64])
def test_the_head_does_not_depend_on_the_split_of_the_prompt(n_ubatch):
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=n_ubatch)
    talk.ask(A, 4, forced=B)
    assert differing(talk) == []


def test_an_extension_of_the_last_answer_keeps_every_row():
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    talk.ask(A, 4, forced=B)
    talk.ask((*A, *B[:4], *word("C", 9)), 2, forced=B)
    assert differing(talk) == []


def test_the_first_row_after_a_restore_belongs_to_another_conversation():
    """A checkpoint does not contain the last hidden state. The answer is still correct: drafts are guesses."""
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    talk.ask(A, 4, forced=B)
    answer = talk.ask((*A, *word("C", 9)), 2, forced=B)
    assert talk.kinds(answer, "ckpt_restore") == ["ckpt_restore"]
    assert differing(talk) == [answer.cache_n]
    assert talk.right(answer) is True


def test_a_new_conversation_starts_from_the_end_of_the_last_one():
    """The carried hidden state is never reset to zero."""
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    talk.ask(A, 4, forced=B)
    answer = talk.ask(word("D", 15), 2, forced=B)
    assert answer.cache_n == 0
    assert differing(talk) == [0]
    assert talk.right(answer) is True


def test_each_slot_carries_its_own_hidden_state():
    talk = Talk("GGGA+M", spec_type="draft-mtp", parallel=2, batch_size=8, ubatch_size=8)
    talk.send(word("D", 30), 6, forced=B, id_slot=1)
    talk.ask(A, 6, forced=word("E", 9), id_slot=0)
    assert [differing(talk, slot) for slot in (0, 1)] == [[], []]


@pytest.mark.parametrize("exact", [False, True])
def test_the_previous_hidden_state_changes_every_number_of_the_head(exact):
    trunk = make_model("GA", exact, 3)
    said = prefill(trunk, PlainStore(), 0, A[:6], 6)
    head, stores = mtp_head(trunk), [PlainStore(), PlainStore()]
    runs = [TokenRun(0, 0, A[:6])]
    for store in stores:
        store.begin(runs)
    with_trunk, alone = head.forward(runs, stores[0], [before(said, None)])[0], head.forward(runs, stores[1])[0]
    assert (with_trunk.digest != alone.digest).all()
    pieces = [before(joined([said]), None).digest[1:], said.digest[:-1]]
    assert np.array_equal(*pieces)
    if exact:
        assert (with_trunk.x != alone.x).any(axis=1)[1:].all()
