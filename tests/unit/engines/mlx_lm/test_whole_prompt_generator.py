"""Tests of the older generator's ticks: groups by length, a common checkpoint for all rows, prompt tails fed twice."""

from __future__ import annotations

import pytest

from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from tests.unit.engines.mlx_lm.serving import burst, chat, inserted, keys, offsets, server, sound, system, text, user

THINKING = {"template": "plain", "thinking": True}
THINKS = ChatTemplate("plain", True)


def test_a_prompt_is_prefilled_and_answers_in_one_tick():
    srv = server("0.31.1")
    srv.submit(text(1, 2, 3, n=2))
    srv.iterate()
    assert [(len(row.tokens), row.n_gen) for row in srv.core.slots] == [(4, 1)]


def test_the_shortest_come_first_with_what_they_hold():
    """Groups of a single row; the second chat already holds 25 of its 47 tokens."""
    srv = server("0.31.1", "AAAA", prompt_concurrency=1)
    burst(srv, text(*range(1, 23)))
    for prompt in (range(101, 141), (*range(1, 23), *range(300, 325)), range(201, 205)):
        srv.submit(text(*prompt, n=1))
    srv.take_tasks()
    assert [len(row.tokens) + len(row.segments[0]) for row in srv.core.generator.waiting] == [4, 40, 47]


def test_groups_are_prefilled_while_there_is_room_for_a_whole_one():
    """Room for 4 rows in groups of 2: two groups at once; the fifth row waits until two rows end."""
    srv = server("0.31.1", prompt_concurrency=2, decode_concurrency=4)
    for k in range(1, 6):
        srv.submit(text(*range(10 * k, 10 * k + k), n=k))
    srv.iterate()
    assert [row.n_gen for row in srv.core.slots] == [1, 1, 1, 1, 0]
    srv.iterate()
    assert srv.core.widest == 4
    assert [row.n_gen for row in srv.core.slots] == [1, 2, 2, 2, 0]         # three places are free only now
    srv.iterate()
    assert [row.n_gen for row in srv.core.slots] == [1, 2, 3, 3, 1]


def test_a_checkpoint_one_token_before_the_end():
    """5.5: keys of 21 and 25; the divergent turn finds nothing."""
    srv = server("0.31.1")
    burst(srv, chat(system(), user(3)))
    assert inserted(srv) == [(21, "checkpoint"), (25, "normal")] and sound(srv)
    (answer,) = burst(srv, chat(system(), user(4, 40)))
    assert answer.cache_n == 0


def test_texts_have_no_checkpoint():
    srv = server("0.31.1")
    burst(srv, text(1, 2, 3))
    assert inserted(srv) == [(6, "normal")]


def test_5_8_the_think_tail_is_fed_twice():
    srv = server("0.31.1", **THINKING)
    burst(srv, chat(system(), user(3), template=THINKS))
    assert offsets(srv) == {21: 21, 27: 29} and not sound(srv)


def test_5_5_side_effect_of_the_sentinel():
    srv = server("pr1006a")
    burst(srv, chat(system(), user(3)))
    assert offsets(srv) == {14: 14, 25: 32}
    (answer,) = burst(srv, chat(system(), user(4, 40)))
    assert (answer.cache_n, answer.prompt_n) == (14, 9)


def test_5_6_rests_of_different_lengths_make_no_array():
    srv = server("pr1006a")
    users = [(2, 30), (5, 40), (3, 50)]
    first = burst(srv, *(chat(system(), user(*u)) for u in users))
    assert sorted(length for length, kind in inserted(srv) if kind == "checkpoint") == [11, 12, 14]
    assert [answer.cache_n for answer in first] == [0, 0, 0]
    again = server("pr1006a")
    burst(again, chat(system(), user(3, 60)))
    answers = burst(again, *(chat(system(), user(*u)) for u in users))
    assert [answer.cache_n for answer in answers] == [14, 14, 14]
    assert again.dead and all(answer.error.startswith("ValueError") for answer in answers)


def test_before_976_every_checkpoint_is_the_last_rows():
    """Keys of 20, 21 and 23 tokens, all with the caches of the last row of the batch: 23 tokens."""
    srv = server("0.31.0")
    burst(srv, *(chat(system(), user(k, 10 * k + 20)) for k in (2, 3, 5)))
    found = offsets(srv)
    assert {n: found[n] for n in (20, 21, 23)} == {20: 23, 21: 23, 23: 23}
    own = server("0.31.1")
    burst(own, *(chat(system(), user(k, 10 * k + 20)) for k in (2, 3, 5)))
    assert offsets(own) == {20: 20, 21: 21, 23: 23, 24: 24, 25: 25, 27: 27} and sound(own)


def test_a_rest_shorter_than_the_distance_mislabels_its_checkpoint():
    """A repeated thinking prompt: 23 of 24 tokens are found, pc is 3, the key has 21 tokens and the caches 23."""
    srv = server("0.31.1", "AAAA", **THINKING)
    request = chat(system(), user(3), n=1, template=THINKS)
    burst(srv, request)
    assert keys(srv) == {"normal": [25]}                        # the checkpoint was pruned
    (answer,) = burst(srv, request)
    assert (answer.cache_n, inserted(srv)[2]) == (23, (21, "checkpoint"))
    assert offsets(srv)[25] == 27                               # the first request's: an existing entry stays


@pytest.mark.parametrize("model", ["GGGA", "W8 A", "SSSS", "CCA", "HH"])
def test_rows_of_several_groups_answer_as_if_alone(model):
    together, alone = (server("0.31.1", model, "exact", prompt_concurrency=2, prefill_step_size=3) for _ in "ab")
    texts = [text(*range(10 * k + 1, 10 * k + 1 + k), n=6 - k, first=100 * k) for k in (1, 2, 3, 4, 5)]
    for request, answer in zip(texts, burst(together, *texts), strict=True):
        (own,) = burst(alone, request)
        assert [said.digest for said in own.outputs] == [said.digest for said in answer.outputs]


def test_a_group_knows_the_most_tokens_that_a_layer_of_each_row_holds():
    """States have no length."""
    srv, asked = server("0.31.1", prompt_concurrency=2), []
    burst(srv, text(*range(1, 9), n=1))
    srv.submit(text(*range(1, 9), 1000, 50, 51, n=1))
    srv.submit(text(*range(60, 65), n=1))
    srv.take_tasks()
    generator = srv.core.generator
    fresh = generator.fresh
    generator.fresh = lambda empty, sizes: asked.append((empty, sizes)) or fresh(empty, sizes)
    while srv.working:
        srv.iterate()
    assert asked == [([True, False], [0, 9])]


def test_of_1006_a_checkpoint_lies_where_the_last_message_begins():
    """The probe differs in the last of four messages only."""
    srv = server("pr1006a")
    messages = (system(), user(3), ChatMessage("assistant", (40, 41)), user(4, 50))
    srv.submit(chat(*messages))
    srv.take_tasks()
    header = 3
    before = len(render(messages[:3], ChatTemplate(), False)) + header
    (row,) = srv.core.slots
    assert len(row.request.prompt) + row.task.position == before
