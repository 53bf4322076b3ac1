"""Tests that texts diverge in real tokens exactly where they diverge in the scenario."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items, item_at
from cachesim.base.tokens import common_prefix
from cachesim.engines.chat_template import THK
from cachesim.tools.live.token_map import TINY, MappedText, TokenMap
from cachesim.tools.search.drawn_conversation import draw_conversation


def texts_of(case):
    steps = case.scenario("llama_cpp@b10587").steps
    return [
        MappedText((*step.request.prompt, *(step.request.forced or ())), step.request.user_starts) for step in steps
    ]


@pytest.mark.parametrize("seed", range(40))
def test_common_prefixes_are_kept(seed):
    texts = texts_of(draw_conversation(seed, "llama_cpp"))
    mapped = TokenMap(texts, seed)
    real = [mapped.prompt(text) for text in texts]
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            assert common_prefix(real[i], real[j]) == common_prefix(a.tokens, b.tokens)
    assert [len(one) for one in real] == [len(text.tokens) for text in texts]
    assert mapped.notes == []


def test_the_same_integer_gives_the_same_tokens():
    texts = texts_of(draw_conversation(3, "llama_cpp"))
    first, second, other = (TokenMap(texts, seed) for seed in (5, 5, 6))
    assert [first.prompt(text) for text in texts] == [second.prompt(text) for text in texts]
    assert [first.prompt(text) for text in texts] != [other.prompt(text) for text in texts]


def word(n, length, stop=None):
    return tuple(range(1000 * n, 1000 * n + length))[:stop]


def test_what_parts_behind_an_answer_is_chosen_after_it_is_known():
    answer = word(2, 2)
    follow = MappedText((*word(1, 3), *word(3, 2)))
    mapped = TokenMap([MappedText((*word(1, 3), *answer)), follow], 0)
    taken = TokenMap([MappedText((*word(1, 3), *answer)), follow], 0).prompt(follow)[3]
    mapped.heard(answer, (taken, 7))                   # the model generates just the token of the word
    assert mapped.prompt(follow)[3] != taken
    assert mapped.prompt(MappedText(answer)) == (taken, 7)
    assert mapped.notes == []


def test_an_answer_that_meets_a_word_already_sent_is_noted():
    answer, follow = word(2, 2), MappedText((*word(1, 3), *word(3, 2)))
    mapped = TokenMap([MappedText((*word(1, 3), *answer)), follow], 0)
    mapped.heard(answer, (mapped.prompt(follow)[3], 7))
    assert "equal prefix" in mapped.notes[0]


def test_a_word_used_before_it_is_answered_is_the_answer_later():
    answer = word(2, 3)
    mapped = TokenMap([MappedText((*word(1, 3), *answer))], 0)
    before = mapped.prompt(MappedText(answer))
    mapped.heard(answer, (1, 2, 3))
    assert mapped.prompt(MappedText(answer)) == (1, 2, 3) != before
    assert "before it was answered" in mapped.notes[0]


def test_slices_of_an_answer():
    answer = word(2, 6)
    mapped = TokenMap([MappedText((*word(1, 3), *answer))], 0)
    mapped.heard(answer, (9, 8, 7, 6, 5, 4))
    assert mapped.prompt(MappedText(answer[2:4])) == (7, 6)


def test_an_answer_cut_short():
    answer = word(2, 4)
    mapped = TokenMap([MappedText((*word(1, 3), *answer))], 0)
    mapped.heard(answer, (9, 8))
    real = mapped.prompt(MappedText(answer))
    assert real[:2] == (9, 8)
    assert all(token in TINY.plain for token in real[2:])
    assert mapped.notes == ["2 of 4 tokens of an answer were generated"]


def test_user_marks_are_delimiters_of_one_token():
    text = MappedText((*word(1, 3), *word(2, 3), *word(3, 2)), (3, 6))
    mapped = TokenMap([text], 0)
    real = mapped.prompt(text)
    marks = mapped.delimiters(text)
    assert [mark["role"] for mark in marks] == ["user", "user"]
    assert [TINY.pieces.index(mark["delimiter"]) for mark in marks] == [real[3], real[6]]
    assert all(real.count(real[at]) == 1 for at in (3, 6))
    assert mapped.notes == []


def test_a_mark_that_the_server_would_see_elsewhere_too_is_noted():
    text = MappedText((*word(2, 3), *word(2, 3)), (3,))
    mapped = TokenMap([text], 0)
    mapped.delimiters(text)
    assert "occurs elsewhere" in mapped.notes[0]


def test_a_message_that_begins_with_what_was_generated_is_not_marked():
    answer = word(2, 3)
    text = MappedText((*word(1, 2), *answer), (2,))
    mapped = TokenMap([text], 0)
    mapped.heard(answer, (150, 151, 152))
    assert mapped.delimiters(text) == []
    assert "not marked" in mapped.notes[0]


def test_reserved_and_spelled_tokens():
    mapped = TokenMap([], 0)
    assert mapped.prompt(MappedText((THK, 33, 34))) == (99, 33, 34)
    last = len(TINY.pieces)
    spelled, beyond = mapped.prompt(MappedText((last - 1, last)))
    assert spelled == last - 1 and beyond in TINY.plain


def test_more_texts_than_tokens():
    texts = [MappedText(word(n, 1)) for n in range(1, 400)]
    mapped = TokenMap(texts, 0)
    with pytest.raises(BadInput, match="more than 219 texts"):
        [mapped.prompt(text) for text in texts]


def test_images_stay_images_and_change_with_the_seed():
    image = image_items("0", 8, 4)
    text = MappedText((*word(1, 3), *image, *word(2, 2)))
    first, other = (TokenMap([text], seed).prompt(text) for seed in (5, 6))
    assert [item_at(first, i) for i in range(13)] == [item_at(text.tokens, i) for i in range(13)]
    assert first[3:11] == TokenMap([text], 5).prompt(text)[3:11] != other[3:11]
