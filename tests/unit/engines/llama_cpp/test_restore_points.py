"""Restore points: the reported lengths are those at which every row and state for the next token is present."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp.rules.checkpoint_restore import erase_er2
from cachesim.engines.llama_cpp.rules.older_checkpoint_restore import resume_nothing_forget
from cachesim.engines.llama_cpp.rules.prompt_cache import keep_after_failed_load
from cachesim.events import Advanced
from tests.unit.engines.llama_cpp.talk import Talk, word
from tests.unit.engines.restore_points import Reported, conversations, differences

LONG = word("S", 300)


def listened(kind, **flags):
    """Return a server and the restore points that it reports."""
    talk, told = Talk(kind, "b10587", ctx_size=1024, **flags), Reported()
    talk.log.listener = told
    return talk, told


def talks(kind):
    """Return servers with live slots, checkpoints and entries, of which a ring has lost its first rows."""
    for prompts in ([LONG], [LONG, LONG[:290] + word("x", 9)], [LONG, word("B", 40), LONG + word("y", 20)]):
        talk, told = listened(kind, ctx_checkpoints=4, checkpoint_min_step=0)
        for prompt in prompts:
            talk.ask(prompt, 2)
        yield talk, told


@pytest.mark.parametrize("kind", ["A", "W", "W8 W8", "R", "H", "HW"])
def test_a_restore_point_has_every_usable_length(kind):
    kinds = set()
    for talk, told in talks(kind):
        assert differences(told, talk.server) == []
        assert any(place.own.lengths for place in conversations(talk.server))
        kinds |= {key[0] for key in told.points if told.lengths(key)}
    assert {"slot", "entry"} <= kinds
    assert kind == "A" or any("checkpoint" in one for one in kinds)


@pytest.mark.parametrize("gone, last", [((20, 23), 20), ((0, 3), 0), ((25, 30), 25)])
def test_a_slot_is_usable_up_to_the_first_row_that_is_missing(gone, last):
    talk, told = listened("A")
    talk.ask(LONG[:30], 1)
    talk.server.core.memory.parts["base"].seq_rm(0, *gone)
    talk.server.core.points.changed(talk.server.core.slots[0], "truncated")
    assert told.spans("slot") == [(30, 1, last)]


@pytest.mark.parametrize("gone", [(0, 3), (5, 8), (9, 30)])
@pytest.mark.parametrize("start", [0, 4, 6, 9, 12])
@pytest.mark.parametrize("kind", ["A", "W", "H"])
def test_a_slot_consists_of_rows_from_a_start_and_all_windows_and_states(kind, start, gone):
    talk, _ = listened(kind)
    talk.ask(LONG[:30], 1)
    talk.server.core.memory.parts["base"].seq_rm(0, *gone)
    whole, stored = talk.server.inspection.live(0), talk.server.inspection.stored(("slot", 0, 0), start)
    assert (stored.start, stored.resume, stored.tokens) == (start, 30, ())
    for part, all_rows in zip(stored.rows, whole.rows, strict=True):
        there = [i for i, pos in enumerate(all_rows.pos) if part.window or pos >= start]
        assert part.pos.tolist() == all_rows.pos[there].tolist()
        for layer, rows in part.rows.items():
            assert rows.digest.tolist() == all_rows.rows[layer].digest[there].tolist()
    assert (stored.state and stored.state.pos) == (whole.state and whole.state.pos)


@pytest.mark.parametrize("kind", ["W", "R", "H"])
def test_a_kept_point_is_stored_under_its_own_tokens(kind):
    for talk, told in talks(kind):
        assert talk.server.inspection.kept()
        for key in talk.server.inspection.kept():
            stored = talk.server.inspection.stored(key)
            assert (stored.kind, stored.tokens) == (key[0], told.tokens[key])
            assert stored.owner == (key[1] if key[0] == "checkpoint" else -1)


@pytest.mark.parametrize("kind", ["A", "W", "R", "H"])
def test_the_content_of_a_point_is_that_of_the_stored_object(kind):
    for talk, _ in talks(kind):
        for key in [("slot", 0, 0), *talk.server.inspection.kept()]:
            stored, content = talk.server.inspection.stored(key), talk.server.inspection.content(key)
            assert [part.pos.tolist() for part in content.rows] == [part.pos.tolist() for part in stored.rows]
            assert repr(content) == repr(content._replace(rows=stored.rows, state=stored.state))


def test_a_ring_that_has_lost_rows_is_usable_a_window_later():
    talk, told = listened("W", ctx_checkpoints=0)
    talk.ask(LONG, 1)
    first = min(talk.server.inspection.live(0).rows[1].pos)
    assert first > 0
    assert told.spans("slot") == [(300, first + 7, 300)]


def test_a_draft_in_a_batch_of_its_own_changes_the_restore_points_of_its_slot():
    talk, told = Talk("A", "b4265", spec_type="draft-simple", model_draft="AA", spec_draft_n_max=3), Reported()
    talk.log.listener = told
    talk.ask(LONG[:30], 9, drafts=(Draft(31, 3, 1), Draft(33, 2, 0)))
    assert differences(told, talk.server) == []
    [tokens] = [tokens for key, tokens in told.tokens.items() if key[0] == "slot"]
    assert tokens == tuple(talk.server.core.slots[0].tokens)


class Changes(Reported):
    """Also keeps (slot, cause, rule, number of tokens, last usable length) of every change of a slot."""

    def __init__(self):
        super().__init__()
        self.of_slots = []

    def __call__(self, event):
        super().__call__(event)
        if isinstance(event, Advanced):
            self.of_slots.append((event.point.key[1], event.cause, event.rule, event.point.n, event.point.hi))


def test_a_slot_that_keeps_its_list_after_a_failed_load_has_no_rows_for_it():
    talk = Talk("A", parallel=2, kv_unified=True, cache_idle_slots=False, rules={"load_failed": keep_after_failed_load})
    talk.log.listener = told = Changes()
    first = talk.ask(word("p", 120), id_slot=1)
    talk.ask(word("t", 20), id_slot=1), talk.ask(word("n", 180), id_slot=0)
    before = len(told.of_slots)
    assert talk.ask(first.slot_tokens[:60], id_slot=1).status == 200
    assert told.of_slots[before : before + 2] == [
        (1, "overwritten", keep_after_failed_load.rule, 20, 0), (1, "truncated", "LC-NPAST-LCP", 0, 0)]
    assert differences(told, talk.server) == []


def test_a_build_may_forget_all_checkpoints_of_a_prompt_that_none_of_them_suits():
    nothing = {"ckpt_erase": lambda checkpoints, inputs, resume: erase_er2((), inputs, resume)}
    ends = []
    for rules in (nothing, {**nothing, "ckpt_reset": resume_nothing_forget}):
        talk = Talk("R", checkpoint_min_step=0, rules=rules)
        talk.log.listener = told = Changes()
        for prompt in (LONG[:40], LONG[:10] + word("x", 20)):
            talk.ask(prompt)
        assert differences(told, talk.server) == []
        ends.append((talk.lengths(), [change[1:3] for change in told.of_slots if change[1] == "erased"]))
    assert ends == [([36, 26], []), ([26], [("erased", resume_nothing_forget.rule)])]
