"""Numbers of a request that follow from the selection of its slot, and from its checks of checkpoints."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, LogGrammar, ParsedLine
from cachesim.tools.server_logs.facts.from_slot_choice import (
    MOVED,
    add_choice,
    add_first_use,
    add_shares,
    add_threshold,
)
from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

GRAMMAR = LogGrammar()
"""Grammar without lines that an excerpt may lack."""
WHOLE, SEARCHED = LineSieve(), LineSieve()
"""Sieve of a whole log, and one of a search that may hide any line."""
WHOLE.add("a line")


def line(number, kind, template="x", **printed):
    """Return a line with these numbers; shares are words such as 0.50."""
    numbers = {name: float(value) if isinstance(value, str) else value for name, value in printed.items()}
    words = {name: value for name, value in printed.items() if isinstance(value, str)}
    return ReadLine(number, ParsedLine(Line(kind, template), 0, 7, numbers, words), "x")


def known(**values):
    found = FoundNumbers()
    for name, (low, high) in values.items():
        found.add(name, ProvenRange(low, high, frozenset({90})))
    return found


def shown(found):
    return {name: (one.low, one.high, sorted(one.lines)) for name, one in found.numbers.items()}


LAUNCH = line(3, "launch")
CHECK = line(5, "ckpt_check", thold=40)
ERASED = line(6, "ckpt_invalidate", n_swa=8)


@pytest.mark.parametrize(("lines", "values", "lcp"), [
    ([LAUNCH, CHECK, ERASED], {}, (48, 49, [5, 6])), ([LAUNCH, CHECK, line(6, "ckpt_invalidate", n_swa=0)], {},
                                                      (40, 41, [5, 6])),
    ([LAUNCH, CHECK, ERASED], {"lcp": (48, 48)}, (48, 48, [90])), ([LAUNCH, CHECK], {}, (40, None, [5])),
    ([LAUNCH, ERASED], {}, None), ([CHECK, ERASED], {}, (40, None, [5])),
    ([LAUNCH, line(5, "ckpt_check", thold=0), ERASED], {}, None),
    ([LAUNCH, CHECK, line(6, "ckpt_invalidate")], {}, (40, None, [5])), ([CHECK], {}, (40, None, [5])),
    *(([LAUNCH, line(4, kind), CHECK, ERASED], {}, None) for kind in MOVED),
    ([LAUNCH, CHECK, line(5, "ckpt_check", thold=30), ERASED, line(7, "ckpt_invalidate", n_swa=9)], {},
     (48, 49, [5, 6])),
])  # fmt: skip
def test_a_prefix_ends_a_window_after_the_threshold_or_a_token_later(lines, values, lcp):
    found = known(**values)
    add_threshold(TiedRequest(0, 7, lines), found, GRAMMAR, WHOLE)
    assert shown(found).get("lcp") == lcp
    if "lcp" not in values:
        add_threshold(TiedRequest(0, 7, lines), found := known(), GRAMMAR, SEARCHED)
        assert shown(found) == {}


def chosen(kind="slot_by_lcp", template="x", cache=(), similar=(), values=None, sieve=WHOLE, **printed):
    """Return the numbers that follow from the choice of a slot."""
    found = known(**values or {})
    request = TiedRequest(0, 7, [LAUNCH], line(2, kind, template, **printed), [*cache], [*similar])
    add_choice(request, found, GRAMMAR, sieve)
    assert found.clashes == []
    return shown(found)


LENGTH = {"n_tokens": (100, 100)}


@pytest.mark.parametrize(("shares", "length", "lcp", "held"), [
    ({"f_sim": "0.50"}, (100, 100), (50, 50), None), ({"f_sim": "0.50"}, (1000, 1000), (495, 505), None),
    ({"f_sim": "0.50"}, (100, 101), (50, 51), None), ({"f_sim": "0.50"}, (100, None), (50, None), None),
    ({"f_sim": "0.50", "f_keep": "0.25"}, (100, None), (50, None), (197, None)),
    ({"f_sim": "1.00"}, (1000, 1000), (995, 1000), None), ({"f_sim": "0.00"}, (100, 100), (0, 0), None),
    ({"f_sim": "0.5", "f_keep": "0.50"}, (1000, 1000), (450, 550), (892, 1111)), ({"f_keep": "0.50"}, (100, 100), None,
                                                                                  None),
    ({"f_sim": "0.50", "f_keep": "1.00"}, (100, 100), (50, 50), (50, 50)),
    ({"f_sim": "0.00", "f_keep": "0.50"}, (100, 100), (0, 0), None),
    ({"f_sim": "0.50", "f_keep": "0.00"}, (100, 100), (50, 50), (10_000, None)),
    ({"f_sim": "0.77"}, (2, 2), None, None),
])  # fmt: skip
def test_prefix_and_contents_of_a_slot_follow_from_the_shares_of_its_choice(shares, length, lcp, held):
    found = chosen(values={"n_tokens": length}, **shares)
    nothing = (None, None)
    assert [found.get(name, nothing)[:2] for name in ("lcp", "held")] == [lcp or nothing, held or nothing]
    assert all(found[name][2] == [2, 90] for name in ("lcp", "held") if name in found)


def test_a_symmetric_similarity_is_not_a_share_of_the_prompt():
    """ik_llama.cpp prints 2 * 3 / (49 + 47) = 0.062 for a prompt of 49 tokens."""
    shares, found = line(4, "pc_search", f_keep="0.064", f_sim="0.062"), known(held=(47, 47))
    add_shares(shares, found, LogGrammar(is_sim_symmetric=True))
    assert found.numbers["lcp"][:2] == (3, 3) and "n_tokens" not in found.numbers


@pytest.mark.parametrize(("kind", "template"), [("slot_by_lcp", "lcs similarity"), ("slot_by_lru", "x")])
def test_a_common_substring_and_another_choice_show_no_prefix(kind, template):
    assert "lcp" not in chosen(kind, template, values=LENGTH, f_sim="0.50")


@pytest.mark.parametrize(("saved", "is_own"), [((49,), False), ((50,), True), ((100,), True), ((101,), False),
                                               ((60, 101), False), ((), True), ((0,), False)])  # fmt: skip
def test_a_saved_prompt_that_the_slot_did_not_hold_shows_another_server(saved, is_own):
    """The slot held 100 tokens, or as few as the common prefix of 50."""
    cache = [line(2, "pc_save", n_tokens=size) for size in saved]
    found = chosen(cache=cache, values={**LENGTH, "held": (50, 100)}, f_sim="0.50")
    assert ("lcp" in found, "held" in found) == (is_own, is_own)


def test_nothing_is_known_without_a_choice_or_if_the_prefix_is_printed():
    request = TiedRequest(0, 7, [LAUNCH], None, [], [line(1, "slot_skip_empty")])
    found = known()
    add_choice(request, found, GRAMMAR, WHOLE)
    assert shown(found) == {}
    assert chosen(similar=[line(1, "slot_skip_empty")], values={"lcp": (5, 5)}) == {"lcp": (5, 5, [90])}


def test_an_empty_slot_shares_nothing():
    assert chosen("slot_by_id", similar=[line(1, "slot_sim", lcp=9), line(1, "slot_skip_empty")]) == {
        "held": (0, 0, [1, 2]), "lcp": (0, 0, [1, 2])}  # fmt: skip


@pytest.mark.parametrize(("kind", "saved", "held"), [
    ("slot_by_lru", (60, 70, 80), (80, 80, [6])), ("slot_by_lcp", (80,), None), ("slot_by_lru", (), None),
    ("slot_by_lru", (None,), None),
])  # fmt: skip
def test_similarities_show_prefix_length_and_the_saved_contents(kind, saved, held):
    cache = [line(4 + at, "pc_save", **({} if size is None else {"n_tokens": size})) for at, size in enumerate(saved)]
    if len(saved) == 1:
        cache = [one._replace(number=5) for one in cache]
    similar = [line(1, "slot_sim", lcp=8, n=100), line(1, "slot_sim", lcp=9, n=100), line(1, "slot_sim")][:2]
    found = chosen(kind, "lcs", cache=cache, similar=similar)
    assert (found["lcp"], found["n_tokens"], found.get("held")) == ((9, 9, [1, 2]), (100, 100, [1]), held)


def test_a_similarity_without_a_prefix_shows_nothing():
    similar = [line(1, "slot_sim", lcp=9, n=100), line(1, "slot_sim", n=0)]
    assert chosen(similar=similar) == {"n_tokens": (100, 100, [1])}


def entry(number, lcp, n_tokens, keep="0.70", **more):
    return line(number, "pc_cand", lcp=lcp, n_tokens=n_tokens, f_keep=keep, f_sim="0.93", **more)


LOAD = line(9, "pc_load", f_keep="0.70", f_sim="0.93")


@pytest.mark.parametrize(("cache", "found"), [
    ([entry(7, 140, 200), LOAD], {"lcp": (140, 140, [7, 9]), "held": (200, 200, [7, 9])}),
    ([entry(6, 9, 99, "0.10"), entry(7, 140, 200), LOAD], {"lcp": (140, 140, [7, 9]), "held": (200, 200, [7, 9])}),
    ([entry(6, 140, 200), entry(7, 140, 200), LOAD], {"lcp": (140, 140, [7, 9]), "held": (200, 200, [7, 9])}),
    ([entry(6, 141, 201), entry(7, 140, 200), LOAD], {}), ([LOAD], {}), ([LOAD, entry(10, 140, 200)], {}),
    ([entry(7, 140, 200, "0.71"), LOAD], {}), ([entry(7, 140, 200), LOAD, line(10, "pc_load_failed")], {}),
    ([line(7, "pc_state", lcp=140, n_tokens=200, f_keep="0.70", f_sim="0.93"), LOAD], {}),
])  # fmt: skip
def test_a_loaded_entry_is_the_listed_one_with_its_shares(cache, found):
    assert chosen(cache=cache, f_sim="0.50") == found
    assert chosen(cache=cache, f_sim="0.50", sieve=SEARCHED) == {}


@pytest.mark.parametrize(("task", "lines", "is_first"), [
    (0, ["launch"], True), (0, ["prompt_time"], True), (0, ["release"], True),
    (1, ["launch"], False), (None, ["launch"], False),
])  # fmt: skip
def test_the_first_task_of_a_server_finds_nothing(task, lines, is_first):
    found = known()
    add_first_use(TiedRequest(0, task, [line(3, kind) for kind in lines]), found)
    assert shown(found) == (dict.fromkeys(("cache_n", "held", "lcp"), (0, 0, [3])) if is_first else {})


@pytest.mark.parametrize(("t_last", "is_uncached", "cache", "is_empty"), [
    (-1, True, (), True), (0, True, (), False), (1, True, (), False), (-1, False, (), False),
    (-1, True, (LOAD,), False),
    (-1, True, (line(9, "pc_save"),), True),
])  # fmt: skip
def test_a_slot_that_was_never_used_is_empty(t_last, is_uncached, cache, is_empty):
    request = TiedRequest(0, 7, [LAUNCH], line(2, "slot_by_lru", t_last=t_last), [*cache], is_uncached=is_uncached)
    found = known()
    add_first_use(request, found)
    assert shown(found) == (dict.fromkeys(("held", "lcp", "cache_n"), (0, 0, [2])) if is_empty else {})
    add_first_use(TiedRequest(0, 7, [LAUNCH], is_uncached=True), found := known())
    assert shown(found) == {}


def test_a_single_similarity_shows_the_prefix():
    assert chosen(similar=[line(1, "slot_sim", lcp=9, n=100)])["lcp"] == (9, 9, [1, 2])


def test_a_saved_prompt_without_its_length_shows_another_server():
    assert chosen(cache=[line(2, "pc_save")], values={**LENGTH, "held": (1, 100)}, f_sim="0.50") == {
        "n_tokens": (100, 100, [90])}  # fmt: skip


def test_an_entry_listed_in_the_line_of_the_file_that_loads_it_may_be_a_later_one():
    assert chosen(cache=[entry(9, 140, 200), LOAD], f_sim="0.50") == {}
