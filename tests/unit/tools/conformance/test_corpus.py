"""Histories of known faults: which are taken, and how they are scaled to the sizes of an implementation."""

from __future__ import annotations

from itertools import islice

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import SLOTS, parse_history
from cachesim.tools.conformance.corpus import (
    SCALED,
    TOKENS,
    DrawBounds,
    corpus_histories,
    histories,
    line_history,
    scaled,
)


@pytest.mark.parametrize(("line", "size", "longer"), [
    ("A2/A.B3", 4, "A8/A.B12"), ("A3>2/A[:2].B1", 10, "A30>2/A[:20].B10"), ("A9/A[3:7]", 2, "A18/A[6:14]"),
    ("A2>a5/A.a[:3].B1", 4, "A8>a5/A.a[:3].B4"), ("A2!/A{cancel_after=0}", 3, "A6!/A{cancel_after=0}"),
])  # fmt: skip
def test_prompts_are_scaled_and_answers_are_not(line, size, longer):
    assert scaled(parse_history(line), size).line == longer


def test_a_line_has_a_limited_number_of_words():
    words = [chr(ord("A") + number) for number in range(26)] + [f"A{chr(ord('A') + number)}" for number in range(7)]
    fitting, long = (".".join(f"{word}1" for word in words[:count]) for count in (SLOTS, SLOTS + 1))
    assert line_history(fitting).tokens == SLOTS
    with pytest.raises(BadInput, match=f"expected at most {SLOTS} words and at least one generated token per request"):
        line_history(long)


def test_a_line_with_an_image_or_an_adapter_is_for_servers_only():
    for line in ("A5.I3x1.B1", "A9{lora=0:1}", "A9>4{n_cmpl=2}"):
        with pytest.raises(BadInput, match="adapters, images and n_cmpl are supported by 'cachesim check' only"):
            line_history(line)
        assert line_history(line, keyed=True).is_keyed
    with pytest.raises(BadInput, match="at least one generated token"):
        line_history("A5>0")


def test_each_history_of_the_corpus_is_followed_by_its_scaled_copy():
    plain = [one.line for one in islice(corpus_histories(4096), 6)]
    both = [one.line for one in islice(corpus_histories(4096, (2,)), 12)]
    assert both[0] == plain[0] and both[1] == scaled(parse_history(plain[0]), 2).line
    assert [line for line in both if line in plain] == plain[: sum(line in plain for line in both)]
    assert len({*both}) == len(both) and (TOKENS, SCALED) == (1_000, 3_000)


def test_a_draw_begins_at_its_first_number():
    space = DrawBounds(3, 20, (8,), frozenset())
    drawn = [one.line for one in histories(space, 8)]
    assert [one.line for one in histories(space, 4, first=1)][:3] == drawn[1:4]
    assert next(iter(histories(space, 1, first=5))).line == drawn[5]
