"""Several completions of a prompt, concurrent requests, and clients that disconnect."""


import pytest

from cachesim.engines.base import BEFORE_A_SLOT, Answer, Draft, Request
from cachesim.engines.llama_cpp.rules import older_slot_selection as older
from cachesim.engines.llama_cpp.rules import repaired, slot_selection
from cachesim.engines.llama_cpp.slot import State, Task
from cachesim.engines.llama_cpp.slot_assignment import (
    activate_children,
    drop_orphaned_tasks,
)
from tests.unit.engines.llama_cpp.talk import Talk, word

A, B = word("A", 40), word("B", 30)


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
@pytest.mark.parametrize("unified", [False, True])
def test_children_answer_as_a_cold_run_does(kind, unified):
    talk = Talk(kind, parallel=3, kv_unified=unified, ctx_size=768)
    r, s, t = (word(name, 4) for name in "rst")
    answer = talk.ask(A, 4, n_cmpl=3, forced=r, children_forced=(s, t))
    assert [answer.tokens, *(child.tokens for child in answer.children)] == [list(r), list(s), list(t)]
    assert [child.prompt_n for child in answer.children] == [40, 40]
    assert talk.right(answer) is True
    assert sorted(talk.held()) == [0, 0, 43]                # children are cleared, the parent stays


def test_a_parent_whose_output_is_in_a_later_view_does_not_hold_up_the_next_parent():
    talk = Talk("A", parallel=4, rules={"children_at": repaired.copied_after_output})
    for number, prompt in enumerate((A, A, B, B)):
        talk.send(prompt, 9, id_slot=number)
    talk.server.iterate()
    slots = talk.server.core.slots
    for parent, i_batch in ((0, 9), (2, 3)):
        slots[parent].state, slots[parent].i_batch, slots[parent].children = State.DONE_PROMPT, i_batch, [parent + 1]
        slots[parent + 1].state = State.WAITING
    activate_children(talk.server.core, 5)
    assert [(slot.state, slot.children) for slot in slots] == [
        (State.DONE_PROMPT, [1]), (State.WAITING, []), (State.DONE_PROMPT, []), (State.DONE_PROMPT, [])]


def test_a_conversation_in_a_child_slot_is_lost():
    """D24."""
    talk = Talk("A", parallel=2, cache_idle_slots=False)
    talk.ask(B, 1, id_slot=1)
    talk.ask(A, 1, id_slot=0, n_cmpl=2)
    assert talk.ask(B, 1, id_slot=1).cache_n == 0


SELECTED, LAST = {"children": older.children_selected}, {"children": older.children_last}


def test_b7710_selects_a_slot_for_each_further_completion():
    """The empty slot 2 is the least recently used, so that the conversation in slot 1 stays."""
    talk = Talk("A", "b7789", rules=SELECTED, parallel=3)
    talk.ask(B, 1, id_slot=1)
    r, s = word("r", 4), word("s", 4)
    answer = talk.ask(A, 4, id_slot=0, n_cmpl=2, forced=r, children_forced=(s,))
    assert [one.tokens for one in (answer, *answer.children)] == [list(r), list(s)]
    assert [one.id_slot for one in (answer, *answer.children)] == [0, 2]
    assert [one["is_child"] for one in talk.events(answer, "launch")] == [0, 1]
    assert talk.right(answer) is True
    assert talk.held() == [43, 30, 0]


def test_b7710_waits_for_a_slot_of_every_further_completion():
    talk = Talk("A", "b7789", rules=SELECTED, parallel=2, batch_size=8, ubatch_size=8)
    busy = talk.send(B, 9, id_slot=1)
    talk.server.iterate()
    answer = talk.send(A, 2, n_cmpl=2, id_slot=0)
    while not busy.done:
        assert talk.held()[0] == 0
        talk.server.iterate()
    talk.work()
    assert (answer.status, answer.prompt_n, answer.children[0].id_slot) == (200, 40, 1)
    assert talk.right(answer) is True


def test_b7710_saves_the_conversation_of_the_slot_that_a_further_completion_gets():
    talk = Talk("A", "b7789", rules=SELECTED, parallel=2)
    talk.ask(B, 1, id_slot=1)
    talk.ask(A, 1, id_slot=0, n_cmpl=2)
    assert talk.entries() == [30]


@pytest.mark.parametrize("ends", ["disconnect", "too long"])
def test_b7710_drops_a_waiting_completion_whose_request_has_ended(ends):
    more = {"prompt": A, "cancel_at": 8} if ends == "disconnect" else {"prompt": word("L", 600)}
    talk = Talk("A", "b7789", rules=SELECTED, parallel=2, batch_size=8, ubatch_size=8, ctx_size=512)
    answer = talk.send(n=2, n_cmpl=2, id_slot=0, **more)
    for _ in range(12):
        talk.server.iterate()
    (child,) = answer.children
    assert (answer.done, child.done, child.cancelled, child.tokens) == (True, True, True, [])
    assert not talk.server.working and talk.ask(B, 1, n_cmpl=2).children[0].done


def test_b7710_keeps_a_completion_that_waits_for_a_deferred_request():
    talk = Talk("A", "b7789", rules=SELECTED, parallel=2)
    busy = talk.send(B, 9, id_slot=0)
    talk.server.iterate()
    answer = talk.send(A, 2, id_slot=0, n_cmpl=2)
    talk.server.iterate()
    (child,) = answer.children
    assert not busy.done and talk.kinds(answer, "launch") == ["launch"]
    talk.work()
    assert (answer.status, child.id_slot, child.cancelled, len(child.tokens)) == (200, 1, False, 2)
    assert talk.right(answer) is True


def test_b7710_drops_a_deferred_completion_whose_request_has_failed():
    """Slots 1 and 2 fill the context, all requests fail, and the slots go to the three requests that were deferred
    before the completion."""
    talk = Talk("A", "b7789", rules=SELECTED, parallel=3, kv_unified=True, cache_ram=0)
    full = [talk.send(word("X", 150), 20, id_slot=1), talk.send(word("Y", 100), 20, id_slot=2)]
    talk.server.iterate()
    later = [talk.send(B, 30, id_slot=1) for _ in range(3)]
    answer = talk.send(A, 1, id_slot=0, n_cmpl=2)
    talk.server.iterate()
    assert len(talk.server.core.deferred) == 4
    while not answer.done:
        talk.server.iterate()
    talk.server.iterate()
    (child,) = answer.children
    assert [one.status for one in (*full, answer)] == [500, 500, 500]
    assert child.done and child.cancelled and not any(one.done for one in later)
    assert child not in [task.answer for task in talk.server.core.deferred]
    talk.work()
    assert all(one.done and one.status == 200 for one in later)


def test_b7551_gives_the_answer_of_the_requests_own_task_last():
    """The first task to be queued evaluates the prompt in slot 0; the other one wants this slot, and reuses it."""
    talk = Talk("A", "b7789", rules=LAST, parallel=2, ctx_size=512)
    talk.ask(word("A", 20), 1, id_slot=0)
    talk.ask(B, 1, id_slot=1)
    r, s, t = (word(name, 2) for name in "rst")
    answer = talk.ask(A, 2, id_slot=0, n_cmpl=2, forced=r, children_forced=(s,))
    assert [one.tokens for one in (answer, *answer.children)] == [list(r), list(s)]
    assert [(one.id_slot, one.cache_n) for one in (answer, *answer.children)] == [(0, 20), (0, 39)]
    assert talk.right(answer) is True
    answer = talk.ask(word("C", 9), 2, n_cmpl=2, forced=s, children_forced=(t,))
    assert [one.tokens for one in (answer, *answer.children)] == [list(s), list(t)]


def test_an_answer_that_another_task_gives_has_its_own_drafts():
    talk = Talk("A", rules=LAST, parallel=2, spec_type="ngram-simple")
    answer = talk.ask(A, 6, n_cmpl=2, drafts=(Draft(40, 3, 2),), children_drafts=((Draft(40, 2, 1),),))
    assert [(one.draft_n, one.draft_n_accepted) for one in (answer, *answer.children)] == [(3, 2), (2, 1)]


def test_more_completions_than_slots_are_refused_before_anything():
    talk = Talk("A", parallel=2)
    answer = talk.ask(A, 1, n_cmpl=3)
    assert (answer.status, talk.events(answer)) == (400, [])


def test_children_wait_for_idle_slots():
    talk = Talk("A", parallel=2)
    first = talk.send(A, 20, id_slot=0)
    talk.server.iterate()
    second = talk.send(B, 2, n_cmpl=2)
    talk.work()
    assert first.done and second.done and len(second.children) == 1
    assert talk.kinds(second, "launch") == ["launch", "launch"]


@pytest.mark.parametrize(("more", "status", "parent_cancelled"), [
    ({"cancel_at": 8, "prompt": A}, 200, True), ({"prompt": word("L", 600)}, 400, False),
])
def test_children_do_not_wait_for_a_cancelled_or_failed_parent(more, status, parent_cancelled):
    """Its client disconnected while the prompt was evaluated, or the prompt was too long."""
    talk = Talk("A", parallel=2, batch_size=8, ubatch_size=8, ctx_size=512)
    talk.ask(B, 1, id_slot=1)                               # not what the child holds
    answer = talk.send(**more, n=2, n_cmpl=2, id_slot=0)
    for _ in range(12):
        talk.server.iterate()
    (child,) = answer.children
    assert (answer.status, answer.done, answer.cancelled) == (status, True, parent_cancelled)
    assert (child.done, child.cancelled, child.tokens, child.slot_tokens) == (True, True, [], ())
    assert not talk.server.working and talk.ask(B, 1, n_cmpl=2).children[0].done


def test_old_tokens_of_a_waiting_child_do_not_count_for_a_cancellation():
    talk = Talk("A", parallel=2, batch_size=8, ubatch_size=8, cache_idle_slots=False)
    talk.ask(word("B", 60), 1, id_slot=1)                   # more than the 42 after which the client disconnects
    answer = talk.ask(A, 9, id_slot=0, n_cmpl=2, cancel_at=42)
    assert [(one.cancelled, len(one.tokens)) for one in (answer, *answer.children)] == [(True, 3), (True, 3)]


def test_two_requests_at_once_share_the_batch_and_answer_correctly():
    talk = Talk("H", parallel=2)
    first, second = talk.send(A, 5), talk.send(B, 5)
    talk.work()
    assert {first.id_slot, second.id_slot} == {0, 1}
    assert talk.right(first) is True
    assert talk.right(second) is True


def test_the_slot_with_the_lower_id_fills_the_batch_first():
    talk = Talk("A", parallel=2, batch_size=32, ubatch_size=32, ctx_size=512)
    low = talk.send(A, 1, id_slot=0)
    talk.send(B, 1, id_slot=1)
    talk.server.iterate()
    assert talk.held() == [32, 0]
    talk.server.iterate()
    assert talk.held() == [40, 24]
    talk.work()
    assert low.prompt_n == 40


def test_a_cancelled_request_keeps_evaluated_tokens():
    talk = Talk("R", batch_size=16)
    answer = talk.ask(A, 9, cancel_at=16)
    assert answer.cancelled
    assert (answer.tokens, talk.held()) == ([], [16])
    assert talk.right(answer) is True
    assert talk.ask(A, 1).cache_n == 16


def test_a_cancellation_during_generation():
    talk = Talk("A")
    answer = talk.ask(A, 90, forced=word("r", 90), cancel_at=43)
    assert (answer.cancelled, answer.tokens_cached, len(answer.tokens)) == (True, 43, 4)


def test_the_deferred_task_for_the_slot_or_the_oldest_comes_next():
    talk = Talk("A", parallel=2)
    talk.send(A, 8, id_slot=0)
    talk.send(B, 3, id_slot=1)
    talk.server.iterate()
    waits_for_0, waits_for_1 = talk.send(A, 1, id_slot=0), talk.send(B, 1, id_slot=1)
    talk.server.iterate()
    assert len(talk.server.core.deferred) == 2
    while not waits_for_1.done:
        assert not waits_for_0.done
        talk.server.iterate()
    talk.work()
    assert waits_for_0.done


def test_a_cancellation_ends_all_completions_at_once_in_the_requested_order():
    """Drafts bring the completions to different lengths; the client disconnects when the first has 44 tokens."""
    talk = Talk("A", parallel=3, spec_type="ngram-simple")
    answer = talk.ask(
        A, 30, n_cmpl=3, forced=word("r", 30), children_forced=(word("s", 30), word("t", 30)), cancel_at=44,
        drafts=(Draft(40, 3, 3),), children_drafts=((), (Draft(40, 3, 1),)), cancel_order=(1, 0, 2),
    )
    assert [e["slot"] for e in talk.events(answer, "release")] == [1, 0, 2]
    assert [one.cancelled for one in (answer, *answer.children)] == [True] * 3
    assert [one.tokens_cached for one in (answer, *answer.children)] == [44, 41, 42]


def test_a_request_that_waits_is_served_before_the_other_completions_are_cancelled():
    """The first cancellation releases a slot for it, and it is processed before the second, already queued
    cancellation."""
    talk = Talk("A", parallel=2, slot_prompt_similarity=0.0)
    talk.send(A, 30, n_cmpl=2, cancel_at=44)
    talk.server.iterate()
    waits = talk.send(B, 1)
    talk.work()
    kinds = [(e.ev, e.slot) for e in talk.log.events if e.ev in ("release", "slot_by_lru", "launch")]
    assert kinds[-5:] == [("release", 1), ("slot_by_lru", 1), ("launch", 1), ("release", 0), ("release", 1)]
    assert waits.done and not waits.cancelled


def test_a_cancellation_before_a_slot_is_free():
    talk = Talk("A", parallel=1)
    first = talk.send(A, 9)
    talk.server.iterate()
    gone = talk.send(B, 1, cancel_at=BEFORE_A_SLOT)
    talk.work()
    assert (gone.cancelled, gone.done, gone.id_slot) == (True, True, -1) and first.done
    assert not talk.server.core.deferred and talk.kinds(gone, "launch") == []


def test_a_child_uses_the_drafts_that_the_request_gives_it():
    talk = Talk("A", parallel=2, spec_type="ngram-simple")
    answer = talk.ask(A, 5, n_cmpl=2, drafts=(Draft(40, 2, 0),), children_drafts=((Draft(41, 2, 1),),))
    steps = [(e["slot"], e["n_tokens"], e["accepted"]) for e in talk.events(answer, "spec_step")]
    assert steps == [(1, 41, 0), (0, 43, 1)]


def test_tasks_taken_before_the_cancellations_of_a_round_find_the_slot_busy():
    talk = Talk("A", parallel=1)
    leaving = talk.send(A, 9, cancel_at=41)
    while not talk.server.tasks.disconnect_is_next:
        talk.server.iterate()
    late = talk.send(B, 1)
    talk.server.tasks.take_queue()
    assert (leaving.done, len(talk.server.core.deferred)) == (False, 1)
    talk.work()
    assert leaving.cancelled and late.done


def test_the_context_of_shared_prompts_is_not_shifted():
    talk = Talk("A", parallel=2, ctx_size=512, context_shift=True)
    answer = talk.ask(word("L", 250), 20, n_cmpl=2)
    assert [(one.status, one.error) for one in (answer, *answer.children)] == [
        (500, "context shift cannot be used for shared prompt")] * 2


def test_completions_start_when_the_prompt_of_their_own_parent_is_complete():
    """The prompts of two requests share a batch of 64 tokens: the second is complete first."""
    talk = Talk("A", parallel=4, kv_unified=True, ctx_size=1024, cache_idle_slots=False)
    long, short = talk.send(word("L", 90), 2, n_cmpl=2), talk.send(word("S", 20), 2, n_cmpl=2)
    talk.work()
    copies = [(event.slot, event.ev) for event in talk.log.events if event.ev == "copy_to_child"]
    assert len(copies) == 2 and len({slot for slot, _ in copies}) == 2
    assert [talk.right(answer) for answer in (long, short)] == [True, True]
    assert [[child.prompt_n for child in answer.children] for answer in (long, short)] == [[90], [20]]


def test_prompts_of_a_decision_that_share_nothing_are_answered_one_by_one():
    talk = Talk("A", "b11549", "none", parallel=3, kv_unified=True)
    answer = talk.ask(A, kind="decision", others=(B[:9], word("C", 5)))
    assert (answer.prompt_n, answer.done) == (40, True)
    assert [(child.status, child.prompt_n, child.done) for child in answer.children] == [(200, 9, True), (200, 5, True)]


def test_as_many_completions_as_slots_are_accepted():
    talk = Talk("A", "b11549", "none", parallel=2)
    assert [talk.ask(A, n_cmpl=n).status for n in (0, 1, 2, 3)] == [400, 200, 200, 400]
    last = talk.answers[-1]
    assert (last.error_kind, dict(last.error_numbers)) == ("completions-out-of-range", {"n": 3, "most": 2})


@pytest.mark.parametrize(("parent", "how", "dropped"), [
    (0, slot_selection.SELECTED, True), (7, slot_selection.SELECTED, True), (-1, slot_selection.SELECTED, False),
    (0, slot_selection.EACH, False), (5, slot_selection.SELECTED, False),
])  # fmt: skip
def test_a_deferred_completion_is_dropped_with_its_request(parent, how, dropped):
    """Task 5 is still there; 0 and 7 have ended."""
    core = Talk("A", "b7789", "none").server.core
    core.deferred.append(Task(5, Request(A), Answer(1)))
    core.deferred.append(Task(9, Request(A), Answer(2), parent, how))
    drop_orphaned_tasks(core)
    assert [task.id for task in core.deferred] == ([5] if dropped else [5, 9])
