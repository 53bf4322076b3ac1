"""Class of a client's change: stated only if the numbers of a log prove it."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.client_changes import NEAR, SlotPrompts, proven_change
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.recognise import recognise
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest
from tests.unit.tools.server_logs.records import logged as request_of


def exact(number):
    return ProvenRange(number, number)


@pytest.mark.parametrize("lcp, change", [
    (0, "new"), (110, "extends"), (109, "answer"), (108, "answer"), (101, "answer"), (100, "turn end"),
    (100 - NEAR, "turn end"), (99 - NEAR, "history"), (1, "history"),
])  # fmt: skip
def test_the_position_of_the_difference_gives_the_class(lcp, change):
    """A slot of 110 tokens, of which 100 were the previous prompt."""
    assert proven_change(exact(lcp), exact(110), exact(150), 100) == change
    without = "differs" if change in ("answer", "turn end", "history") else change
    assert proven_change(exact(lcp), exact(110), exact(150)) == without


@pytest.mark.parametrize("lcp, n_tokens", [(100, 100), (110, 110), (60, 60)])
def test_a_prompt_that_the_slot_holds_is_the_same_prompt_again(lcp, n_tokens):
    assert proven_change(exact(lcp), exact(110), exact(n_tokens), 100) == "again"


@pytest.mark.parametrize("common, held, length", [
    (None, exact(110), exact(150)),                              # the prefix is unknown
    (ProvenRange(50, None), exact(110), exact(150)),             # it has no upper end
    (ProvenRange(90, 110), exact(110), exact(150)),              # it may be all of the slot
    (exact(100), None, exact(150)),                              # the slot's contents are unknown
    (ProvenRange(97, 100), exact(110), exact(100)),              # the last tokens may differ
    (exact(110), ProvenRange(110, 112), exact(150)),             # the slot may hold more
    (exact(50), exact(110), None),                               # the prompt may end there
    (exact(50), exact(110), ProvenRange(50, 60)),
])  # fmt: skip
def test_a_change_that_the_numbers_do_not_determine_has_no_class(common, held, length):
    assert proven_change(common, held, length, 100) == ""


def test_an_empty_slot_has_nothing_in_common():
    assert proven_change(None, exact(0), None) == proven_change(exact(0), None, None) == "new"


@pytest.mark.parametrize("low, high, change", [
    (99, 102, "answer or turn end"), (99 - NEAR, 99, "history or turn end"), (99 - NEAR, 102, "differs"),
    (101, 108, "answer"), (101 - NEAR, 100, "turn end"),
])  # fmt: skip
def test_a_range_over_two_positions_has_the_class_of_both(low, high, change):
    assert proven_change(ProvenRange(low, high), exact(110), exact(150), 100) == change


def request(lcp, held, n_tokens, end, slot=0, **more):
    numbers = {"lcp": lcp if isinstance(lcp, ProvenRange) else exact(lcp), "held": held}
    numbers |= {name: exact(value) for name, value in (("n_tokens", n_tokens), ("end", end)) if value is not None}
    return request_of(slot, numbers=numbers, **more)


def test_the_previous_prompt_of_a_slot_counts_while_the_slot_holds_what_it_left():
    first = request(0, exact(0), 100, 110)
    for held, change in ((exact(110), "history"), (ProvenRange(109, 111), "history"), (exact(130), "differs")):
        prompts = SlotPrompts()
        assert [prompts.change(one) for one in (first, request(50, held, 150, 160))] == ["new", change]


def test_rounded_shares_prove_an_extension_together_with_what_the_slot_was_left():
    """f_keep = 1.000 of 5,268 tokens may be 5,266; all of them were reused."""
    prompts = SlotPrompts()
    prompts.change(request(0, exact(0), 5_200, 5_268))
    assert prompts.change(request(ProvenRange(5_266, 5_268), ProvenRange(5_266, 5_271), 9_000, 9_010,
                                  cache_n=5_268)) == "extends"  # fmt: skip


@pytest.mark.parametrize("between", [
    request(0, exact(0), None, None),                            # its client hung up
    request(0, exact(0), 100, 110, slot=1),                      # of another slot
    request(3, exact(110), 9_000, 110, is_refused=True),            # it was refused, and the slot is unchanged
])  # fmt: skip
def test_a_request_between_changes_only_its_own_slot_and_only_if_it_was_accepted(between):
    prompts = SlotPrompts()
    prompts.change(request(0, exact(0), 100, 110))
    prompts.change(between)
    known = between.slot or between.is_refused
    assert prompts.change(request(95, exact(110), 150, 160)) == ("turn end" if known else "differs")


def test_a_line_about_the_last_token_proves_that_the_slot_held_the_whole_prompt():
    text = "slot operator(): id  0 | task 3 | need to evaluate at least 1 token for each active slot (n_past = 90, " \
           "task.n_tokens() = 90)"  # fmt: skip
    line = ReadLine(1, recognise(text)[0].read, text, "")
    for chunks, change in (((), "again"), (((40, 60),), "")):            # not if chunks of the slot were moved
        logged = request(ProvenRange(88, 90), exact(110), 90, 95, tied=TiedRequest(0, 3, [line]), chunks=chunks)
        assert SlotPrompts().change(logged) == change


@pytest.mark.parametrize(("cache_n", "more", "change"), [
    (110, {}, "extends"), (109, {}, ""), (None, {}, ""), (120, {}, "extends"), (110, {"chunks": ((0, 9),)}, "")])
def test_the_common_prefix_is_at_least_what_was_reused_unless_chunks_were_moved(cache_n, more, change):
    """The slot holds 110 tokens, of which 90 to 110 are those of the prompt."""
    one = request(ProvenRange(90, 110), exact(110), 150, 160, cache_n=cache_n, **more)
    assert SlotPrompts().change(one) == change


def test_a_request_of_unknown_length_leaves_an_unknown_prompt():
    for between, change in ((request_of(slot=0, end=110), "differs"), (request_of(slot=0, n_tokens=5), "differs"),
                            (request_of(slot=1, n_tokens=5), "turn end")):  # fmt: skip
        prompts = SlotPrompts()
        prompts.change(request(0, exact(0), 100, 110))
        prompts.change(between)
        assert prompts.change(request(95, exact(110), 150, 160)) == change
