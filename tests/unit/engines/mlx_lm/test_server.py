"""Tests of the server's thread: order of stored entries, admission, draining, disconnected clients, fatal errors."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Request
from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm import ENGINE, start
from cachesim.engines.mlx_lm.events import Removed
from cachesim.engines.mlx_lm.model_layout import declared
from cachesim.engines.mlx_lm.rules.prefill import cancel_removes
from cachesim.events import Aborted, Gained, Log
from tests.unit.engines.mlx_lm.serving import burst, chat, inserted, keys, offsets, server, sound, system, text, user

THINKING = {"template": "plain", "thinking": True}
THINKS = ChatTemplate("plain", True)


def test_a_chat_leaves_a_system_a_user_and_a_final_entry():
    srv = server()
    burst(srv, chat(system(), user(3)))
    assert inserted(srv) == [(14, "system"), (21, "user"), (25, "assistant")] and sound(srv)


def test_a_thinking_chat_leaves_one_more_behind_the_user_segment():
    srv = server(**THINKING)
    burst(srv, chat(system(), user(3), template=THINKS))
    assert inserted(srv) == [(14, "system"), (22, "user"), (23, "assistant"), (27, "assistant")]


def test_a_text_leaves_all_but_its_last_token_and_then_everything():
    srv = server()
    burst(srv, text(*range(1, 9)))
    assert inserted(srv) == [(7, "assistant"), (11, "assistant")]


def test_of_trimmable_caches_only_the_longest_stays():
    srv = server(model="AAAA")
    burst(srv, chat(system(), user(3)))
    assert keys(srv) == {"assistant": [25]}


def test_prompts_pause_before_answers_end():
    """Row 0 answers with a single token while row 1 is still fed: the checkpoint of row 1 comes first, in that tick."""
    srv = server()
    burst(srv, text(1, 2, 3, n=1), text(*range(11, 20), n=1))
    assert inserted(srv) == [(2, "assistant"), (8, "assistant"), (4, "assistant"), (10, "assistant")]


def test_the_next_turn_finds_what_the_last_one_left():
    srv = server()
    burst(srv, chat(system(), user(3)))
    (again,) = burst(srv, chat(system(), user(4, 40)))
    assert (again.cache_n, again.prompt_n, again.deciding) == (14, 9, "ML-LRU-SHORTER")


def test_the_byte_limit_acts_at_admission_only_and_counts_what_is_at_work():
    """Two entries of mamba2's states stay above the limit until a third request is admitted."""
    srv = server(model="SSSS", prompt_cache_bytes=1)
    burst(srv, text(1, 2, 3), text(4, 5, 6))
    assert srv.core.cache.lru.nbytes > 1 and srv.core.cache.lru.max_bytes == 1 << 63
    burst(srv, text(7, 8, 9))
    gone = [event.reason for event in srv.log.events if isinstance(event, Removed)]
    assert gone == ["bytes"] * 4 and keys(srv) == {"assistant": [2, 6]}


def test_alone_the_byte_limit_is_not_looked_at():
    srv = server(model="SSSS", prompt_cache_bytes=1)
    burst(srv, text(1, 2, 3, seed=True), text(4, 5, 6, seed=True))
    assert keys(srv) == {"assistant": [6, 6]}


def test_a_seed_waits_until_the_batch_is_empty_and_holds_up_what_comes_after():
    srv = server()
    first, seeded, third = burst(srv, text(1, 2, 3), text(4, 5, 6, seed=True), text(7, 8, 9))
    assert inserted(srv) == [(2, "assistant"), (6, "assistant"), (6, "assistant"), (2, "assistant"), (6, "assistant")]
    assert [answer.tokens for answer in (first, seeded, third)] == [[1000, 1001, 1002]] * 3
    assert srv.core.generator is not None and not srv.core.is_draining


def test_a_client_that_hangs_up_leaves_its_checkpoints_only():
    srv = server()
    (answer,) = burst(srv, chat(system(), user(3), n=9, cancel_at=23))
    assert answer.cancelled and answer.tokens == [1000, 1001] and keys(srv) == {"system": [14], "user": [21]}


def test_before_1072_it_left_prompt_and_answer_so_far():
    srv = server("0.31.1")
    (answer,) = burst(srv, chat(system(), user(3), n=9, cancel_at=23))
    assert answer.cancelled and keys(srv) == {"normal": [24], "checkpoint": [21]} and sound(srv)


def test_rows_that_leave_together_are_stored_in_the_order_of_the_batch():
    """The older generator takes the shorter row first, in any order of arrival."""
    srv = server("0.31.1")
    burst(srv, text(*range(1, 9), n=9, cancel_at=0), text(11, 12, n=9, cancel_at=0))
    assert inserted(srv) == [(3, "normal"), (9, "normal")]


@pytest.mark.parametrize("profile", ["0.31.1", "0.32.2"])
def test_that_a_client_has_gone_is_noticed_when_it_is_told_something(profile):
    """The second row waits for the place of the first, whose client cancels."""
    srv = server(profile, decode_concurrency=1, prompt_concurrency=1)
    _, gone = [srv.submit(text(1, 2, 3, n=2)), srv.submit(text(4, 5, 6, n=9, cancel_at=0))]
    srv.iterate()
    assert not gone.cancelled and len(srv.core.active) == 2
    while srv.working:
        srv.iterate()
    assert gone.cancelled


def test_clients_are_looked_at_and_let_in_between_slices():
    srv = server(ticks_per_slice=4)
    gone = srv.submit(text(1, 2, 3, n=9, cancel_at=0))
    srv.iterate()
    late = srv.submit(text(4, 5, 6, n=1))
    for _ in range(2):
        srv.iterate()
    assert late.id_slot == -1 and not gone.cancelled
    srv.iterate()
    assert gone.cancelled and gone.tokens == [1000, 1001]       # fed, begun, and two that were returned
    srv.iterate()
    assert late.id_slot == 1


@pytest.mark.parametrize("profile, error", [
    ("0.32.2", "ValueError"), ("d78bf58e", "IndexError"), ("m1072", "IndexError"),
])  # fmt: skip
def test_an_exact_hit_ends_the_thread_and_later_requests_get_no_answer(profile, error):
    """7.1: a text equals an earlier prompt with its answer."""
    srv = server(profile)
    burst(srv, text(1, 2, 3))
    answers = burst(srv, text(7, 8, 9), text(1, 2, 3, 1000, 1001, 1002), text(4, 5, 6))
    assert all(answer.died and answer.error.startswith(error) for answer in answers)
    assert srv.dead and isinstance(srv.log.events[-1], Aborted)
    assert srv.submit(text(1)).died and not srv.working


def test_alone_an_exact_hit_is_an_error_of_one_client():
    srv = server()
    burst(srv, text(1, 2, 3, seed=True))
    (answer,) = burst(srv, text(1, 2, 3, 1000, 1001, 1002, seed=True))
    assert (answer.status, answer.cache_n, answer.died, srv.dead) == (404, 6, False, False)
    assert keys(srv) == {"assistant": [6]} and not any(row.busy for row in srv.core.slots)


def test_before_1072_an_exact_hit_ends_the_thread_unless_zeros_stand_for_it():
    dead, alive = server("0.31.1"), server("pr1006b")
    for srv in (dead, alive):
        burst(srv, text(1, 2, 3))
        burst(srv, text(1, 2, 3, 1000, 1001, 1002))
    assert dead.dead and not alive.dead
    assert offsets(alive)[9] == 10                              # 6 found, a zero, 3 answered


def test_followers_of_a_moved_entry_end_the_thread_of_923():
    """5.4: both requests got the same key to move."""
    srv = server("pr923", "AAAA")
    burst(srv, chat(user(3)))
    answers = burst(srv, chat(user(3), user(2, 30)), chat(user(3), user(2, 40)))
    assert [event.text for event in srv.log.events if isinstance(event, Aborted)] == ["KeyError in insert_cache"]
    assert srv.dead and all(answer.done and not answer.died for answer in answers)     # they were answered before
    assert burst(srv, text(1, 2))[0].died


def test_texts_of_923_are_stored_under_the_prompt_alone():
    srv = server("pr923", "AAAA")
    burst(srv, text(1, 2, 3))
    (answer,) = burst(srv, text(1, 2, 3, 4, 5))
    assert (answer.cache_n, answer.prompt_n) == (3, 2)
    assert keys(srv) == {"normal": [5]} and offsets(srv) == {5: 11}      # 3 + 3 answered + 2 + 3 answered


def test_the_cached_tokens_of_923_leave_the_suffix_out():
    """5.2: the follow-up finds 8 of 22 tokens; its suffix adds 3."""
    srv = server("pr923")
    burst(srv, chat(user(3)))
    (answer,) = burst(srv, chat(user(3), user(2, 60), user(2, 70)))
    assert (answer.cache_n, answer.prompt_n) == (8, 14 + 3)


@pytest.mark.parametrize("request_, word", [
    (Request((1,), kind="infill"), "models only"), (Request((1,), n_cmpl=2), "models only"), (Request(()), "empty"),
])
def test_what_is_not_modelled_is_refused(request_, word):
    with pytest.raises(BadInput, match=word):
        server().submit(request_)


def test_there_are_no_slots_to_save():
    with pytest.raises(BadInput, match="no slots"):
        server().slot("save", 0)


def test_tasks_are_queued_and_then_at_work():
    srv = server()
    first, second = (srv.submit(text(*range(start, start + 4))) for start in (1, 11))
    assert (srv.tasks.queued, srv.tasks.at_work(), srv.tasks.waiting()) == (2, [], [])
    srv.iterate()
    assert (srv.tasks.queued, srv.tasks.at_work(), srv.tasks.waiting()) == (0, [first.request, second.request], [])
    burst(srv)
    assert (srv.tasks.queued, srv.tasks.at_work()) == (0, []) and first.done and second.done


def test_bytes_of_caches_in_use_are_their_declared_sizes():
    srv = server(model="AAAA")
    burst(srv, text(*range(1, 9)))
    layers = [entry.layers for entry in srv.core.cache.lru.entries().values()]
    each = [srv.core.cache.active_bytes([one]) for one in layers]
    assert each == [declared(one, srv.core.cache.weights) for one in layers] and min(each) > 0
    assert srv.core.cache.active_bytes([[], *layers, []]) == sum(each) and srv.core.cache.active_bytes([[]]) == 0


def test_an_idle_server_keeps_its_generator_until_it_drains():
    srv = server()
    burst(srv, text(1, 2, 3))
    generator = srv.core.generator
    srv.update()
    assert generator is not None and srv.core.generator is generator
    srv.core.is_draining = True
    srv.update()
    assert (srv.core.generator, srv.core.is_draining) == (None, False)
    srv.update()
    assert (srv.core.generator, srv.core.is_draining) == (None, False)


@pytest.mark.parametrize(("dead", "draining", "queued", "idle"), [
    (False, False, False, True), (False, True, False, False), (False, False, True, False),
    (True, False, False, True), (True, True, False, True), (True, False, True, True),
])  # fmt: skip
def test_a_server_is_idle_if_no_round_changes_anything(dead, draining, queued, idle):
    srv = server()
    if queued:
        srv.submit(text(1, 2, 3))
    srv.core.dead, srv.core.is_draining = dead, draining
    assert srv.idle is idle and srv.working is (queued and not dead)


@pytest.mark.parametrize(("room", "left"), [
    (9728, [10, 10, 10, 8]), (9727, [10, 10, 8]), (7168, [10, 10, 8]), (7167, [10, 8]), (0, []), (-1, [])])
def test_entries_have_the_bytes_that_the_caches_in_use_leave_them(room, left):
    """A row in use has 256 columns of 256 bytes; the entries of three texts have ten tokens each, its own one eight."""
    srv = server(model="A", mode="none", prompt_cache_bytes=256 * 256 + room)
    for first in (1, 101, 201):
        burst(srv, text(*range(first, first + 8), n=2))
    srv.submit(text(*range(900, 909), n=9))
    for _ in range(3):
        srv.iterate()
    assert keys(srv) == {"assistant": [10, 10, 10, 8]} and srv.core.cache.lru.nbytes == 9728
    srv.submit(text(*range(800, 809), n=2))
    srv.take_tasks()
    assert keys(srv).get("assistant", []) == left


def test_an_entry_that_a_leaving_row_continued_is_reported_as_overwritten():
    """The rules of #923 lend an entry; here the caches of a client that leaves are not stored."""
    srv = start(ENGINE.rules("mlx_lm@pr923").changed({"cancel": cancel_removes}), "W8 A", {}, "none", Log())
    told = []
    burst(srv, text(1, 2, 3, n=2))
    srv.log.listener = told.append
    (answer,) = burst(srv, text(1, 2, 3, 1000, 1001, 9, n=9, cancel_at=8))
    (entry,) = srv.inspection.kept()
    assert answer.cancelled and [(event.point.key, event.cause) for event in told if isinstance(event, Gained)] == [
        (entry, "overwritten")]
