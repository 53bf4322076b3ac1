"""What a server held before an excerpt of its log, as later requests show it."""

from __future__ import annotations

import re

import pytest

from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.rebuild.before_the_log import (
    ANSWER,
    MAX_EARLIER,
    OTHER_PROMPT,
    SHORT_PROMPT,
    EarlierConversation,
    earlier_checkpoints,
    earlier_conversations,
    earlier_prompts,
    held_before,
    held_by_shares,
    held_by_window,
    listed_checkpoints,
    prompt_between,
    resumed_checkpoints,
    shared_beginning,
    used_slots,
)
from cachesim.tools.server_logs.rebuild.request_order import chain_requests
from tests.unit.tools.server_logs.records import logged as request_of
from tests.unit.tools.server_logs.records import read_line, tied_lines
from tests.unit.tools.server_logs.simulated_log import simulated_log

COMMON, CHECKPOINT = 1776, 1093


def logged(n_tokens, cache_n, lcp=None, end=None, **more):
    """Return a request with these counts."""
    exact = {"n_tokens": n_tokens, "cache_n": cache_n, "lcp": lcp, "end": end}
    numbers = {name: ProvenRange(value, value) for name, value in exact.items() if value is not None}
    return request_of(n_tokens=n_tokens, cache_n=cache_n, lcp=lcp, end=end, numbers=numbers, **more)


def first_of(*requests):
    """Return the first of these requests of a slot, in their chain."""
    return chain_requests(requests)[0]


def resumed(*requests):
    return resumed_checkpoints(first_of(*requests))


def test_a_request_that_resumes_within_the_common_prefix_shows_a_checkpoint():
    assert resumed(logged(6752, CHECKPOINT, COMMON)) == [CHECKPOINT]


def test_a_single_token_is_a_checkpoint_too():
    assert resumed(logged(6752, 1, COMMON)) == [1] and resumed(logged(6752, COMMON - 1, COMMON)) == [COMMON - 1]


def test_a_request_that_reuses_the_whole_common_prefix_shows_none():
    assert resumed(logged(6752, COMMON, COMMON)) == resumed(logged(6752, 0, COMMON)) == []


def test_a_later_request_shows_one_that_the_requests_before_it_kept():
    assert resumed(logged(5650, 4548, 4548), logged(6752, CHECKPOINT, COMMON)) == [CHECKPOINT]


def test_a_checkpoint_of_a_logged_request_is_not_from_before():
    made_here = logged(6752, 5100, 5200)
    assert resumed(logged(5650, 4548, 4548), made_here) == []
    assert resumed(logged(5650, 0, 0), logged(6752, CHECKPOINT, COMMON)) == []


def test_a_request_with_unknown_reuse_ends_the_search():
    assert resumed(logged(5650, None), logged(6752, CHECKPOINT, COMMON)) == []


def listed(*requests):
    return listed_checkpoints(first_of(*requests))


def test_a_checkpoint_that_a_later_request_checks_or_erases_is_from_before():
    first = logged(3287, 2775, created=(3283,), erased=(2762,))
    assert listed(first, logged(1400, 0, checked=((3282, 3282, 0), (1999, 1999, 0)))) == [SHORT_PROMPT, 2000, 2762]


def test_a_checkpoint_that_a_logged_request_created_or_lost_is_not():
    first = logged(3287, 2775, created=(3283,))
    assert listed(first, logged(3400, 3283, erased=(3283,))) == []
    assert listed(logged(5650, 0), logged(6752, 3000, checked=((2999, 2999, 9),))) == []


def test_a_checkpoint_of_any_logged_request_so_far_is_not_from_before():
    first, second = logged(3287, 2775, created=(3283,)), logged(3500, 3400, created=(3490,))
    third = logged(3600, 0, checked=((3489, 3489, 9), (3282, 3282, 9), (1999, 1999, 9)))
    assert listed(first, second, third) == [2000]


def test_a_request_of_unknown_reuse_may_have_kept_all():
    assert listed(logged(5650, None), logged(6752, 3000, checked=((2999, 2999, 9),))) == [3000]


def test_an_erased_checkpoint_shows_an_earlier_one_that_it_is_close_to():
    assert listed(logged(8345, 8341, erased=(7833,))) == [SHORT_PROMPT, 7833]
    assert listed(logged(8345, 8341, erased=(400,))) == [400]
    assert listed(logged(8345, 8341, checked=((7832, 7832, 9),))) == [7833]


@pytest.mark.parametrize(("whole", "earlier"), [(True, [1642, 2204, 2712]), (False, [1642])])
def test_a_request_whose_beginning_is_cut_off_left_its_last_checkpoints_itself(whole, earlier):
    first = logged(None, None, end=2736, is_whole=whole)
    later = logged(7305, 0, checked=((1688, 2711, 0), (1180, 2203, 0), (618, 1641, 0)))
    assert earlier_checkpoints(first_of(first, later)) == earlier


def test_a_window_resumes_one_token_before_the_end_of_its_rows():
    request = logged(6494, 4840, 4868, is_whole=True, checked=((3817, 4840, 4356),))
    assert earlier_checkpoints(first_of(request)) == [4841]
    recurrent = logged(6752, CHECKPOINT, COMMON, is_whole=True)
    assert earlier_checkpoints(first_of(recurrent)) == [CHECKPOINT]


def test_checkpoints_of_an_entry_are_those_of_the_request_that_loads_it():
    loaded = logged(6494, 4840, 4868, is_loaded=True, held=4868, checked=((3817, 4840, 4356),))
    assert listed(loaded) == [4841]
    assert listed(logged(900, 0), loaded) == []


def in_new_slot(slot):
    """Return a request for which the server selected a slot that had never been used."""
    choice = read_line("slot_by_lru", t_last=-1)
    return logged(900, 0, slot=slot, chosen="lru", tied=tied_lines(choice=choice))


def test_a_new_slot_shows_that_the_others_were_used():
    assert used_slots([logged(900, 0, slot=3), in_new_slot(0)], n_slots=4) == [1, 2]
    assert used_slots([logged(900, 0, slot=3), in_new_slot(0), in_new_slot(1)], n_slots=4) == [2]
    assert used_slots([logged(900, 0, slot=3), logged(900, 0, slot=0)], n_slots=4) == []


def test_an_entry_that_no_request_left_is_from_before():
    title, loaded = logged(152, 0, end=163, chosen="lru"), logged(8216, 7845, end=8255, chosen="lru")
    assert earlier_conversations([title, loaded]) == [EarlierConversation(loaded, 7845)]


def test_an_entry_that_a_request_left_is_not():
    before = logged(7806, 0, end=7845, chosen="lru")
    title = logged(152, 0, end=163, chosen="lru")
    assert earlier_conversations([before, title, logged(8216, 7845, end=8255, chosen="lru")]) == []


def test_an_entry_with_a_printed_length_is_compared_with_it():
    longer = logged(8400, None, end=8446)
    loaded = logged(8410, 7001, 7001, is_loaded=True, held=7001)
    assert earlier_conversations([longer, loaded]) == [EarlierConversation(loaded, 7001)]
    assert earlier_conversations([logged(6960, None, end=7001), loaded]) == []


def test_a_request_that_resumes_within_an_entry_shows_its_checkpoint():
    loaded = logged(8410, 6500, 7001, is_loaded=True, held=7001)
    assert earlier_conversations([loaded]) == [EarlierConversation(loaded, 7001, resumed=6500)]


@pytest.mark.parametrize(("n_tokens", "cache_n", "more", "is_entry"), [
    (8216, 400, {"chosen": "lru"}, False), (1000, 100, {"chosen": "lru"}, False), (1000, 101, {"chosen": "lru"}, True),
    (1000, 101, {"chosen": "lcp"}, False), (None, 900, {"chosen": "lru"}, False), (1000, 1, {"is_loaded": True}, True),
    (1000, None, {"chosen": "lru"}, False), (0, 0, {"chosen": "lru"}, False),
])  # fmt: skip
def test_few_reused_tokens_are_not_an_entry(n_tokens, cache_n, more, is_entry):
    request = logged(n_tokens, cache_n, **more)
    assert bool(earlier_conversations([request])) is is_entry
    assert bool(prompt_between(request)) is is_entry


def test_a_request_that_reused_an_unknown_number_of_tokens_loaded_nothing():
    assert prompt_between(logged(0, None, chosen="lru")) == prompt_between(logged(4, None, chosen="lru")) == 0


def test_the_least_prefix_with_what_is_not_continued_is_common_to_all_conversations():
    idle, empty = (read_line("slot_sim", slot=slot, lcp=lcp) for slot, lcp in ((1, 20), (2, 0)))
    for others, least in (([], 0), ([idle], 20), ([idle, empty], 0)):
        assert shared_beginning([request_of(tied=tied_lines(others=others))]) == least
    entries = [read_line("pc_cand", lcp=lcp, n_tokens=70) for lcp in (15, 60)]
    for more, least in (({}, 15), ({"is_loaded": True, "lcp": 15, "held": 70}, 20), ({"is_loaded": True}, 20)):
        request = request_of(tied=tied_lines(cache=entries, others=[idle]), **more)
        assert shared_beginning([request]) == least


def test_slots_that_the_choice_depends_on_are_left_alone():
    other = logged(152, 0, end=163, slot=1)
    assert earlier_conversations([other, logged(8216, 7845, chosen="lru")]) == []


def test_the_first_request_that_loads_an_entry_found_another_prompt_in_its_slot():
    assert prompt_between(logged(8216, 7845, chosen="lru")) == OTHER_PROMPT
    assert prompt_between(logged(8216, 0, chosen="lru")) == 0


LINES = {
    "a checkpoint": ("A1097/A.B3451/A.B.C1102>c40/A.B[:679].D4976>d40/E600", "GGGA", 2, {}),
    "a conversation": ("A7845/B152>b12/A.C371>c40/D159>d12/A.C.c[:39].E373>e40", "A", 1, {}),
    "two conversations": ("A4000/B5000/A.C900>c9/B.D800>d9/A.C.c[:8].E700>e9", "A", 2, {}),
    "an erased checkpoint": ("A700/A.B2066>b10/A.B.b[:9].C512>c8", "GGGA", 2, {"verbosity": 4, "ctx_checkpoints": 4}),
    "checked checkpoints": ("A1900/A.B700/A.B.C900>c9/A.B.C.c[:8].D1100>d9/A[:300].E900>e9", "W512 A", 3,
                            {"verbosity": 4}),
    "a restored window": ("A2414/A.B2431>b124/A.B.C1000>c9/A.B.b[:20].D1600>d15", "W512 A", 3, {"verbosity": 4}),
    "used slots": ("A7000>a9/B970>b9/A.a[:8].C900>c9/E970>e8", "A", 2, {"parallel": 4}),
    "the end of a request": ("A1646/A.B1070>b21/A.B.b[:20].C900>c9/A[:300].D700>d5", "W512 A", 2,
                             {"verbosity": 4, "begin": "stop processing"}),
    "used slots and a launch": ("A7000>a9/B970>b9/A.a[:8].C900>c9/E970>e8", "A", 2,
                                {"parallel": 4, "begin": "launch_slot_"}),
    "a short batch": ("A8257>a2/A.B526>b51", "GGGA", 1, {"verbosity": 4}),
}  # fmt: skip
"""Conversations, their models, how many of their requests an excerpt lacks, and options of the server and its log.
``begin``: the excerpt begins with this line of the last request that it lacks, or of the one after it."""


@pytest.mark.parametrize("name", LINES)
def test_an_excerpt_without_its_beginning_is_reproduced(tmp_path, name):
    line, model, lacking, options = LINES[name]
    options = {**options}
    begin = options.pop("begin", "")
    text = simulated_log(line, model, **options)
    if "parallel" in options:
        text = text.replace("t_last = 0", "t_last = -1")         # a server prints -1 for a slot that it never used
    lines = text.splitlines(keepends=True)
    ends = [number for number, text in enumerate(lines, 1) if re.search(r"stop processing|slot\s+release", text)]
    start = ends[lacking - 1] - (begin == "stop processing")
    start = next(number for number in range(start, len(lines)) if begin in lines[number])
    file = tmp_path / "excerpt.log"
    file.write_text("".join(lines[start:]), encoding="utf-8")
    data, _ = import_log(file)
    assert (data["rejected"], data["complete"], data["differ"]) == (False, True, 0), data["contradicted"]


@pytest.mark.parametrize(("first", "is_assumed"), [(0, False), (5, True)])
def test_only_the_first_task_of_a_server_is_known_to_share_nothing(tmp_path, first, is_assumed):
    lines = simulated_log("A40>a2", "A").splitlines(keepends=True)
    at = next(number for number, text in enumerate(lines) if "launch_slot_" in text)
    file = tmp_path / "excerpt.log"
    file.write_text("".join(lines[at:]).replace("task 0 |", f"task {first} |"), encoding="utf-8")
    data, _ = import_log(file)
    assert [one["assumed"] != "" for one in data["requests"]] == [is_assumed] and data["agree"] == 1


def ranged(**numbers):
    """Return a request with these ranges of counts."""
    return request_of(numbers={name: ProvenRange(*value) for name, value in numbers.items()})


@pytest.mark.parametrize(("left", "is_its_own"), [
    (ranged(end=(90, 100)), True), (ranged(end=(101, 110)), False), (ranged(end=(90, 99)), False),
    (ranged(n_tokens=(100, 100)), True), (ranged(n_tokens=(99, 99)), False), (ranged(n_tokens=(101, 105)), False),
    (ranged(n_tokens=(95, 95), predicted_n=(5, 5)), True), (ranged(n_tokens=(95, 95), predicted_n=(1, 4)), False),
    (ranged(n_tokens=(95, None)), True), (ranged(), True),
    (ranged(end=(90, 90), n_tokens=(100, 100)), False), (ranged(n_tokens=(95, 95), predicted_n=(5, None)), False),
    (ranged(n_tokens=(99, 99), predicted_n=(0, 0)), False),
])  # fmt: skip
def test_an_entry_of_100_tokens_is_from_before_unless_a_request_may_have_left_it(left, is_its_own):
    loaded = logged(200, 100, is_loaded=True, held=100)
    assert bool(earlier_conversations([left, loaded])) is not is_its_own


def similar(*prefixes):
    return tied_lines(similar=[read_line("slot_sim", lcp=lcp) for lcp in prefixes])


@pytest.mark.parametrize(("prefixes", "shared"), [
    ([], 0), ([30], 30), ([0, 30, 50], 30), ([None, 30], 30), ([None], 0), ([99], 99), ([100], 0), ([100, 30], 0),
])  # fmt: skip
def test_conversations_share_what_the_slot_shares_with_the_prompt_if_that_is_less_than_the_entry(prefixes, shared):
    loaded = logged(200, 100, is_loaded=True, held=150, tied=similar(*prefixes))
    assert earlier_conversations([loaded]) == [EarlierConversation(loaded, 150, resumed=100, shared=shared)]


@pytest.mark.parametrize(("held", "n_tokens", "resumed"), [
    (None, 100, 0), (100, 100, 0), (90, 100, 0), (101, 101, 100)])
def test_a_conversation_is_as_long_as_its_entry_or_what_was_reused_of_it(held, n_tokens, resumed):
    loaded = logged(200, 100, is_loaded=True, held=held)
    assert earlier_conversations([loaded]) == [EarlierConversation(loaded, n_tokens, resumed)]


def test_an_entry_of_which_nothing_is_known_to_be_reused_is_left_out():
    assert earlier_conversations([logged(200, None, is_loaded=True, held=100)]) == []
    assert earlier_conversations([logged(200, 0, is_loaded=True, held=100)]) == []


def test_at_most_four_conversations_are_assumed():
    loaded = [logged(2000, size, is_loaded=True, held=size) for size in (100, 200, 300, 400, 500)]
    assert [one.n_tokens for one in earlier_conversations(loaded)] == [100, 200, 300, 400]


@pytest.mark.parametrize(("saved", "tokens"), [([], OTHER_PROMPT), ([70], 70), ([None, 80], 80), ([0, 80, 90], 80)])
def test_the_prompt_between_is_the_one_that_was_saved_first(saved, tokens):
    tied = tied_lines(cache=[read_line("pc_save", n_tokens=size) for size in saved])
    assert prompt_between(logged(200, 100, is_loaded=True, tied=tied)) == tokens


def test_a_checkpoint_that_an_earlier_request_of_the_log_created_is_not_from_before():
    """The first request may have kept all of its slot."""
    first = logged(3287, None, created=(3283,))
    assert listed(first, logged(3400, 3283, erased=(3283, 2000))) == [SHORT_PROMPT, 2000]
    assert listed(first, logged(3400, None, created=(3390,)), logged(3500, 0, erased=(3283, 3390))) == []


def test_requests_between_keep_the_tokens_that_the_least_of_them_reused():
    first, again = logged(5650, 4548, 4548), logged(900, 0, 0)
    assert resumed(first, logged(6752, 4548, 5000)) == [4548]
    assert resumed(first, again, logged(6752, CHECKPOINT, COMMON)) == []
    assert listed(first, again, logged(6752, 0, checked=((2999, 2999, 9),))) == []


def test_a_request_keeps_a_checkpoint_that_ends_a_token_after_the_reused_ones():
    for kept, found in ((2999, [3000]), (2998, [])):
        assert listed(logged(5650, kept), logged(6752, 0, checked=((2999, 2999, 9),))) == found


def test_only_the_first_checkpoint_of_a_slot_shows_an_earlier_one_and_only_if_there_is_room_for_it():
    checked = ((2999, 2999, 9),)
    assert listed(logged(8345, 8341, erased=(7833,), checked=checked)) == [3000, 7833]
    assert listed(logged(8345, 8341, erased=(400,), checked=checked)) == [400, 3000]
    assert listed(logged(8345, 8341, erased=(2 * SHORT_PROMPT,))) == [2 * SHORT_PROMPT]
    assert listed(logged(8345, 8341, erased=(2 * SHORT_PROMPT + 1,))) == [SHORT_PROMPT, 2 * SHORT_PROMPT + 1]
    assert listed(logged(9, None, created=(1,)), logged(9, None, erased=(1,))) == []


def test_a_request_whose_beginning_is_cut_off_left_a_checkpoint_a_micro_batch_before_its_last_one():
    first = logged(None, None, end=2736, is_whole=False)
    later = logged(7305, 0, checked=((1688, 2711, 0), (1176, 2199, 0), (618, 1641, 0)))
    assert earlier_checkpoints(first_of(first, later)) == [1642]


def checked(*lasts, **more):
    return request_of(checked=tuple((last, last, 0) for last in lasts), **more)


@pytest.mark.parametrize(("request_", "needed", "more", "found"), [
    (checked(), 500, {}, ([500], 1)),
    (checked(99), 500, {}, ([104], 397)),
    (checked(99), 104, {}, ([104], 1)), (checked(99), 105, {}, ([104], 2)), (checked(99), 90, {}, ([104], 1)),
    (checked(99), 103 + ANSWER, {}, ([104], ANSWER)), (checked(99), 104 + ANSWER, {}, ([104, 104 + ANSWER], 1)),
    (checked(99), 500, {"end": 9}, ([109], 392)),
    (checked(99, 163), 500, {}, ([168], 333)),                        # a micro-batch before the other
    (checked(99, 162), 500, {}, ([104, 167], 334)),
    (checked(restored_end=100), 500, {}, ([104], 397)), (checked(restored_end=0), 500, {}, ([500], 1)),
    (checked(99), 500, {"earlier": (30, 100)}, ([34, 104], 397)),
    (checked(*range(9, 140, 10)), 500, {"end": 0}, (list(range(30, 150, 10)), 361)),
])  # fmt: skip
def test_earlier_prompts_leave_the_checkpoints(request_, needed, more, found):
    assert earlier_prompts(request_, needed, **more) == found and len(found[0]) <= MAX_EARLIER


@pytest.mark.parametrize(("shares", "held"), [
    ({"f_sim": 0.5, "f_keep": 0.25, "n_tokens": 100}, 200), ({"f_sim": 0.333, "f_keep": 0.5, "n_tokens": 100}, 67),
    ({"f_sim": 0.0, "f_keep": 0.5, "n_tokens": 100}, 0), ({"f_sim": 0.5, "f_keep": 0.0, "n_tokens": 100}, None),
    ({"f_sim": None, "f_keep": 0.5, "n_tokens": 100}, None), ({"f_sim": 0.5, "f_keep": 0.5}, None),
    ({"f_sim": 0.5, "f_keep": 0.25, "n_tokens": 100, "held": (7, 10)}, 8),
    ({"f_sim": 0.5, "f_keep": 0.25, "n_tokens": 100, "held": (7, None)}, 200),
])  # fmt: skip
def test_tokens_in_a_slot_by_its_shares(shares, held):
    assert held_by_shares(request_of(**shares)) == held


@pytest.mark.parametrize(("found", "held"), [
    ((), 0), (((7, 7, 100),), 0), (((6, 7, 100),), 102), (((5, 68, 100), (1, 99, 500)), 164),
])  # fmt: skip
def test_a_window_keeps_as_many_rows_as_a_checkpoint(found, held):
    assert held_by_window(request_of(checked=found)) == held


@pytest.mark.parametrize(("numbers", "held"), [
    ({}, None), ({"held": 30}, 30), ({"held": (20, 40), "cache_n": 30}, 30), ({"held": (20, 40), "cache_n": 50}, 30),
    ({"held": (20, 40)}, 30), ({"cache_n": 50}, None), ({"held": 30, "cache_n": 20}, 30),
    ({"held": (1244, 1245), "cache_n": 1226, "f_keep": 0.985}, 1245),
    ({"held": (1244, 1245), "cache_n": 1225, "f_keep": 0.985}, 1244),
    ({"held": (1244, 1245), "cache_n": 1300, "f_keep": 0.985}, 1244),
])  # fmt: skip
def test_a_slot_held_what_its_first_request_reused_if_the_log_allows_it(numbers, held):
    assert held_before(request_of(**numbers)) == held
