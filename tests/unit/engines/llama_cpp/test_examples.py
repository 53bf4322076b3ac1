"""The worked examples of the specification (section 6), request by request."""

from __future__ import annotations

import pytest

from tests.unit.engines.llama_cpp.talk import Talk, reuse, word

A = word("A", 12)
B = A[:9] + word("b", 5)
X, Y = word("X", 32), word("Y", 32)
LOOSE = {"slot_prompt_similarity": 0.0, "cache_idle_slots": False}

# class -> (cache_n, prompt_n) of A, B, A again, and the checkpoints after each
EXAMPLES = {
    "A": ([(0, 12), (9, 5), (9, 3)], [[], [], []]),
    "W": ([(0, 12), (9, 5), (9, 3)], [[8], [8, 10], [8, 9]]),
    "R": ([(0, 12), (8, 6), (8, 4)], [[8], [8, 10], [8, 8]]),
    "H": ([(0, 12), (8, 6), (8, 4)], [[8], [8, 10], [8, 8]]),
    "HW": ([(0, 12), (0, 14), (0, 12)], [[8], [10], [8]]),
}


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_6_1_to_6_5(kind):
    numbers, checkpoints = EXAMPLES[kind]
    talk, answers, lengths = Talk(kind), [], []
    for prompt in (A, B, A):
        answers.append(talk.ask(prompt, 3))
        lengths.append(talk.lengths())
        assert talk.right(answers[-1]) is True
    assert (reuse(*answers), lengths) == (numbers, checkpoints)
    assert [a.tokens_cached for a in answers] == [14, 16, 14]


def test_6_1_the_cells_are_taken_again_from_where_they_were_freed():
    talk = Talk("A")
    talk.ask(A, 3)
    talk.ask(B, 3)
    table = talk.server.core.memory.parts["base"].streams[0]
    assert table.pos[:17].tolist() == [*range(16), -1]


def test_6_2_a_window_re_evaluates_the_last_token_of_its_checkpoint():
    talk = Talk("W", ctx_size=512, **LOOSE)
    talk.ask(X, 3)
    assert talk.lengths() == [28]
    talk.ask(Y, 3)
    entry = talk.server.core.cache.entries[0]
    assert (len(entry.tokens), sorted(entry.blob.swa.pos.tolist()), talk.lengths()) == (34, list(range(26, 34)), [28])
    last = talk.ask(X[:28] + word("q", 2), 3)
    assert reuse(last) == [(27, 3)]
    assert talk.right(last) is True
    assert {"pos_min": 0, "pos_max": 27, "thold": 20}.items() <= talk.events(last, "ckpt_check")[0].items()


@pytest.mark.parametrize("kind, first", [("R", 14), ("H", 14)])
def test_6_3_a_pure_extension_searches_nothing(kind, first):
    talk = Talk(kind)
    answer = talk.ask(A, 3)
    longer = talk.ask(answer.slot_tokens + word("more", 6), 3)
    assert reuse(longer) == [(first, 6)]
    assert talk.kinds(longer, "ckpt_check", "full_reprocess") == []


def test_6_3_a_repeated_prompt_restores_four_tokens_before_its_end():
    talk = Talk("R")
    talk.ask(A, 1)
    assert reuse(talk.ask(A, 1)) == [(8, 4)]


def test_6_4_the_hybrid_cuts_attention_after_the_restored_state():
    talk = Talk("H")
    talk.ask(A, 3)
    talk.ask(B, 3)
    base = talk.server.core.memory.parts["base"]
    assert (base.pos_max(0), talk.server.core.memory.recr.pos_max(0), base.n_cells(0)) == (15, 15, 16)


def test_6_5_even_an_extension_needs_an_old_checkpoint_where_a_window_is_subtracted():
    talk = Talk("HW")
    answer = talk.ask(word("long", 40), 3)
    longer = talk.ask(answer.slot_tokens + word("more", 6), 3)
    assert reuse(longer) == [(0, 48)]               # 36 is not below 42 - 8
    assert talk.right(longer) is True


CONV_A, CONV_B = word("S", 20) + word("A", 15), word("B", 30)
CONV_C, MORE = word("S", 20) + word("C", 12), word("m", 5)


@pytest.mark.parametrize(
    "profile, last", [("b10587", 20), ("b9518", 20), ("pr24143-on-b10587", 37), ("pr24143-on-b9518", 37)]
)
def test_6_6_an_entry_is_removed_by_a_conversation_with_a_common_prefix(profile, last):
    talk = Talk("A", profile, **LOOSE)
    first = talk.ask(CONV_A, 3)
    answers = [first, talk.ask(CONV_B, 3), talk.ask(CONV_C, 3), talk.ask(first.slot_tokens + MORE, 3)]
    assert [a.cache_n for a in answers] == [0, 0, 20, last]
    assert all(talk.right(a) for a in answers[-1:])


STARTS = (7, 27, 47)


def test_6_7_checkpoints_at_message_starts():
    talk, prompt = Talk("R", checkpoint_min_step=8192), word("P", 58)
    first = talk.ask(prompt, 1, user_starts=STARTS)
    assert [e["n_tokens"] for e in talk.events(first, "batch")] == [0, 7, 27, 47, 50, 54]
    assert talk.lengths() == [7, 47, 54]
    second = talk.ask(prompt + word("next", 20), 1, user_starts=(*STARTS, 67))
    assert reuse(second) == [(58, 20)]
    assert talk.lengths() == [7, 67, 74]


def test_6_7_without_spacing():
    talk = Talk("R", checkpoint_min_step=0)
    talk.ask(word("P", 58), 1, user_starts=STARTS)
    assert talk.lengths() == [7, 27, 47, 54]


def test_6_8_four_slots_that_live_in_the_prompt_cache():
    talk = Talk("A", parallel=-1)
    first = talk.ask(word("one", 20))
    assert (first.id_slot, talk.held()) == (3, [0, 0, 0, 20])
    second = talk.ask(word("two", 20))
    assert (second.id_slot, talk.held(), talk.entries()) == (2, [0, 0, 20, 0], [20])
    third = talk.ask(word("one", 20))
    assert (third.id_slot, third.cache_n, talk.entries()) == (1, 19, [20])
    assert talk.held() == [0, 20, 0, 0]
    assert talk.right(third) is True
