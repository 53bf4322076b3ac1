"""Beginnings of a prompt that a reconstruction tries."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.rebuild.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.rebuild.prompt_choices import SlotTexts
from cachesim.tools.server_logs.rebuild.reconstruction import NEW_CONVERSATION
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText
from tests.unit.tools.server_logs.records import logged as request_of


@pytest.mark.parametrize(("whole", "held", "lcp"), [(False, 2154, 2154), (True, 2154, 0), (False, 2716, 0)])
def test_a_request_whose_beginning_is_cut_off_extends_what_later_lines_show(whole, held, lcp):
    texts = SlotTexts(0, began_empty=False, begun_with={})
    texts.keep(0, SlotText().append_word("A", held))
    first = next(iter(texts.choices(request_of(0, end=2736, is_whole=whole), [AssumedLength(2716)])))
    assert first.lcp == lcp


def offered(request, n_tokens, slots=(), n_swa=0, began_empty=False, shared=0):
    """Return (length of the text, common tokens, why) of each choice. ``slots``: (slot, word, prompt, answer) of the
    texts that were kept."""
    texts = SlotTexts(n_swa, began_empty, {})
    texts.shared = SlotText().append_word("Z", shared)
    for slot, word, prompt, answer in slots:
        text = SlotText(prompt=prompt).append_word(word, prompt).append_word(word.lower(), answer)
        texts.keep(slot, text)
    return [(choice.base.size, choice.lcp, choice.why) for choice in texts.choices(request, [AssumedLength(n_tokens)])]


HELD = [(0, "A", 40, 10)]
NOTHING = "nothing in common with earlier requests"


def slot(lcp):
    return f"{lcp} tokens in common with the slot"


def before(lcp):
    return f"{lcp} tokens in common with an earlier conversation"


def threshold(lcp):
    return f"{lcp} tokens in common, inferred from the checkpoint threshold"


@pytest.mark.parametrize(("logged", "n_tokens", "more", "choices"), [
    ({"lcp": 30}, 60, {"slots": HELD}, [(50, 30, "")]), ({"lcp": 70}, 60, {"slots": HELD}, [(50, 60, "")]),
    ({"lcp": 30, "chunk_start": 20}, 60, {"slots": HELD}, [(50, 20, "")]), ({"lcp": 0}, 60, {}, [(0, 0, "")]),
    ({"lcp": 0}, 60, {"shared": 20}, [(20, 20, "20 tokens in common with every conversation"), (0, 0, "")]),
    ({"f_keep": 1.0, "chosen": "lcp"}, 60, {"slots": HELD}, [(50, 50, "")]),
    ({"f_keep": 1.0, "chosen": "lru"}, 60, {"slots": HELD},
     [(0, 0, NEW_CONVERSATION), (50, 1, slot(1)), (50, 50, slot(50)), (50, 40, slot(40)),
      (50, 25, before(25))]),
    ({}, 60, {"began_empty": True}, [(0, 0, "")]), ({}, 60, {}, [(0, 0, NEW_CONVERSATION)]),
    ({}, 60, {"slots": HELD, "began_empty": True},
     [(0, 0, NEW_CONVERSATION), (50, 1, slot(1)), (50, 50, slot(50)), (50, 40, slot(40)),
      (50, 25, before(25))]),
    ({}, 50, {"slots": HELD, "shared": 49},
     [(49, 49, "49 tokens in common with every conversation"), (50, 0, slot(0)), (50, 1, slot(1)), (50, 50, slot(50)),
      (50, 40, slot(40)), (50, 25, before(25))]),
    ({}, 49, {"shared": 49}, [(0, 0, NEW_CONVERSATION)]),
    ({"cache_n": 30}, 45, {"slots": HELD},
     [(50, 30, slot(30)), (50, 31, slot(31)), (50, 40, slot(40)), (50, 45, before(45)), (50, 37, before(37)),
      (0, 0, NOTHING)]),
    ({"prompt_n": 15}, 45, {"slots": HELD},
     [(0, 0, NEW_CONVERSATION), (50, 30, slot(30)), (50, 31, slot(31)), (50, 40, slot(40)), (50, 45, before(45)),
      (50, 37, before(37))]),
    ({"prompt_n": 5}, 60, {"slots": HELD}, [(0, 0, NEW_CONVERSATION)]),
    ({"checked": ((1, 2, 30),)}, 60, {"slots": HELD}, [(50, 30, threshold(30)), (50, 31, threshold(31))]),
    ({"checked": ((1, 2, 30),)}, 35, {"slots": HELD, "n_swa": 4}, [(50, 34, threshold(34)), (50, 35, threshold(35))]),
    ({"checked": ((1, 2, 30),)}, 60, {}, [(0, 0, threshold(30))]),
    ({"is_loaded": True}, 60, {"slots": [*HELD, (0, "B", 20, 5)]},
     [(25, 1, before(1)), (25, 25, before(25)), (25, 20, before(20)), (25, 12, before(12)), (50, 1, before(1)),
      (50, 50, before(50)), (50, 40, before(40)), (50, 25, before(25)), (0, 0, NOTHING)]),
    ({"is_loaded": True, "held": 50, "lcp": 30}, 45, {"slots": [*HELD, (0, "B", 20, 5)]},
     [(50, 30, before(30)), (50, 31, before(31)), (50, 45, before(45)), (50, 40, before(40)),
      (50, 37, before(37)), (0, 0, NOTHING)]),
])  # fmt: skip
def test_all_beginnings_that_are_tried(logged, n_tokens, more, choices):
    assert offered(request_of(0, is_whole=True, **logged), n_tokens, **more) == choices


def test_a_stored_conversation_that_the_prompt_contains_is_tried_first_in_an_empty_slot():
    fresh = request_of(1, is_whole=True, lcp=0)
    texts = SlotTexts(0, began_empty=True, begun_with={id(fresh): [50, 70]})
    texts.keep(0, SlotText(prompt=40).append_word("A", 40).append_word("a", 10))
    first, second = texts.choices(fresh, [AssumedLength(60)])
    assert (first.base.size, first.lcp) == (50, 50) and (second.base.size, second.lcp) == (0, 0)
    texts.keep(1, SlotText().append_word("B", 20))
    assert [choice.lcp for choice in texts.choices(fresh, [AssumedLength(60)])] == [0]


def test_equal_beginnings_are_offered_once_for_each_length():
    texts = SlotTexts(0, began_empty=True, begun_with={})
    lengths = [AssumedLength(60), AssumedLength(60, "again"), AssumedLength(61)]
    found = texts.choices(request_of(0, is_whole=True), lengths)
    assert [choice.length for choice in found] == [lengths[0], lengths[2]]


def test_a_text_of_a_single_token_is_a_beginning_and_an_empty_one_is_none():
    cut_off = request_of(0, 7)
    assert offered(cut_off, 5)[0] == (0, 0, NEW_CONVERSATION)
    assert offered(cut_off, 5, [(0, "A", 1, 0)])[0] == (1, 1, slot(1))
    assert offered(cut_off, 5, shared=1)[0] == (1, 1, "1 tokens in common with every conversation")
