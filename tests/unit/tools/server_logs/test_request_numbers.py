"""Numbers of a request from progress lines, from the selection of its slot, and words that all lines share."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line
from cachesim.tools.server_logs import progress_numbers
from cachesim.tools.server_logs.found_numbers import FoundNumbers, share_range
from cachesim.tools.server_logs.progress_numbers import (
    add_least_evaluated,
    add_progress,
    is_within_longer,
    shows_whole_prompt,
)
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.read_lines import LineSieve, ReadLine, head_of
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.slot_numbers import add_choice, add_first_use, add_threshold
from cachesim.tools.server_logs.tied_requests import TiedRequest

GRAMMAR = grammars()["llama_cpp"]


def read(number, text):
    found = GRAMMAR.read(text, 0, 7)
    assert found is not None, text
    return ReadLine(number, found, text)


def request(*texts, **more):
    return TiedRequest(0, 7, [read(number, text) for number, text in enumerate(texts, 1)], **more)


def known(**numbers):
    found = FoundNumbers()
    for name, value in numbers.items():
        low, high = value if isinstance(value, tuple) else (value, value)
        found.add(name, ProvenRange(low, high, frozenset({99})))
    return found


def values(found):
    return {name: (one.low, one.high, sorted(one.lines)) for name, one in found.numbers.items()}


def in_slot(n_tokens, share):
    return f"prompt processing progress, n_tokens = {n_tokens}, batch.n_tokens = 8, progress = {share}"


def older(n_past, share):
    return f"prompt processing progress, n_past = {n_past}, n_tokens = 8, progress = {share}"


def evaluated(done, share):
    return f"prompt processing, n_tokens = {done}, progress = {share}, t = 3.00 s"


@pytest.mark.parametrize(("texts", "before", "found"), [
    ([in_slot(50, "0.50")], {}, {"n_tokens": (100, 101, [1])}),
    ([in_slot(50, "1.00")], {}, {"n_tokens": (50, 50, [1])}),
    ([in_slot(0, "0.00")], {}, {}),
    ([in_slot(50, "0.00")], {}, {}),
    ([older(50, "0.40")], {}, {"n_tokens": (50, None, [1])}),
    ([older(0, "0.40")], {}, {"n_tokens": (1, None, [1])}),
    ([older(50, "0.40")], {"n_tokens": 100}, {"n_tokens": (100, 100, [99]), "cache_n": (10, 10, [1, 99])}),
    ([older(50, "0.40")], {"n_tokens": (100, 110)},
     {"n_tokens": (100, 110, [99]), "cache_n": (6, 10, [1, 99])}),
    ([older(50, "0.90")], {"n_tokens": 100}, {"n_tokens": (100, 100, [99])}),
    ([evaluated(60, "0.60")], {"n_tokens": 200},
     {"n_tokens": (200, 200, [99]), "cache_n": (59, 61, [1, 99])}),
    ([evaluated(60, "0.60")], {"cache_n": 0}, {"cache_n": (0, 0, [99]), "n_tokens": (100, 100, [1, 99])}),
    ([evaluated(60, "0.60")], {"cache_n": 60}, {"cache_n": (60, 60, [99]), "n_tokens": (199, 201, [1, 99])}),
    ([evaluated(60, "0.60")], {"prompt_n": 100, "end": 300},
     {"prompt_n": (100, 100, [99]), "end": (300, 300, [99]), "n_tokens": (100, 101, [1, 99]),
      "cache_n": (0, 1, [1, 99])}),
    ([evaluated(60, "0.30"), evaluated(120, "0.60")], {},
     {"n_tokens": (199, 205, [1, 2]), "cache_n": (0, 2, [1, 2])}),
    ([evaluated(60, "0.30"), evaluated(60, "0.60")], {}, {"n_tokens": (197, None, [1])}),
    ([evaluated(60, "0.60")], {"end": 100}, {"end": (100, 100, [99]), "n_tokens": (100, None, [1]),
                                             "cache_n": (0, 40, [1, 99])}),
    ([evaluated(0, "0.40")], {}, {"n_tokens": (1, None, [1])}),
    ([evaluated(0, "0.40")], {"cache_n": 40}, {"cache_n": (40, 40, [99]), "n_tokens": (99, 101, [1, 99])}),
    ([evaluated(0, "0.40")], {"n_tokens": 100},
     {"n_tokens": (100, 100, [99]), "cache_n": (40, 40, [1, 99])}),
    ([evaluated(0, "0.40")], {"prompt_n": 60},
     {"prompt_n": (60, 60, [99]), "n_tokens": (100, 100, [1, 99]), "cache_n": (40, 40, [1, 99])}),
    ([evaluated(0, "0.40"), evaluated(30, "0.70")], {}, {"n_tokens": (98, 102, [1, 2]), "cache_n": (39, 41, [1, 2])}),
    ([evaluated(30, "0.70"), evaluated(31, "1.00")], {}, {"n_tokens": (43, None, [1])}),
    ([evaluated(60, "0.60"), evaluated(59, "0.70")], {}, {"n_tokens": (100, None, [1])}),
    ([evaluated(60, "0.99")], {"prompt_n": 62},
     {"prompt_n": (62, 62, [99]), "n_tokens": (134, 400, [1, 99]), "cache_n": (72, 338, [1, 99])}),
    ([evaluated(60, "1.00")], {"prompt_n": 62}, {"prompt_n": (62, 62, [99]), "n_tokens": (400, None, [1, 99])}),
    ([evaluated(60, "0.60")], {"prompt_n": 60}, {"prompt_n": (60, 60, [99]), "n_tokens": (100, None, [1])}),
    ([evaluated(60, "0.60")], {"prompt_n": (61, 70)}, {"prompt_n": (61, 70, [99]), "n_tokens": (100, None, [1])}),
    ([evaluated(60, "0.00")], {"cache_n": 5}, {"cache_n": (5, 5, [99]), "n_tokens": (13000, None, [1, 99])}),
    ([evaluated(60, "0.60")], {"cache_n": (5, None)}, {"cache_n": (5, None, [99]), "n_tokens": (108, None, [1, 99])}),
    ([evaluated(60, "0.60")], {"n_tokens": (110, None)}, {"n_tokens": (110, None, [99])}),
    ([evaluated(60, "0.60")], {"end": 60}, {"end": (60, 60, [99]), "n_tokens": (100, None, [1]),
                                            "cache_n": (0, 0, [1, 99])}),
    ([evaluated(60, "0.60"), "slot context shift, n_keep = 0, n_left = 127, n_discard = 9"], {"end": 100},
     {"end": (100, 100, [99]), "n_tokens": (100, None, [1])}),
    ([evaluated(60, "0.60")], {"end": 59}, {"end": (59, 59, [99]), "n_tokens": (100, None, [1])}),
])  # fmt: skip
def test_progress_lines_bound_the_prompt_and_what_was_reused(texts, before, found):
    numbers = known(**before)
    add_progress(request(*texts), numbers)
    assert values(numbers) == found and numbers.clashes == []


@pytest.mark.parametrize(("text", "before", "found"), [
    (evaluated(60, "0.60"), {}, (60, None)), (evaluated(60, "0.60"), {"prompt_n": (60, 70)}, (60, 70)),
    (evaluated(60, "0.60"), {"prompt_n": (59, 70)}, (60, 70)), (evaluated(0, "0.00"), {}, None),
])  # fmt: skip
def test_at_least_the_tokens_of_the_last_progress_line_were_evaluated(text, before, found):
    numbers = known(**before)
    add_least_evaluated(request(evaluated(999, "0.10"), text), numbers)
    one = numbers.get("prompt_n")
    assert (None if one is None else (one.low, one.high)) == found


def test_the_whole_prompt_is_in_the_slot_where_their_counts_are_equal():
    lines = request(in_slot(50, "0.50"), in_slot(100, "1.00"), in_slot(101, "1.00"))
    assert [line.number for line in shows_whole_prompt(lines, known(n_tokens=100))] == [2]
    assert shows_whole_prompt(lines, known(n_tokens=(100, 101))) == shows_whole_prompt(lines, known()) == ()


@pytest.mark.parametrize(("done", "share", "n_past", "is_longer"), [
    (60, "0.60", 100, False), (60, "0.60", 101, True), (60, "0.60", 99, True),
    (1, "0.60", 100, False), (2, "0.60", 100, True), (2, "0.60", 0, False), (2, "0.60", 1, True),
])  # fmt: skip
def test_progress_within_a_longer_prompt(done, share, n_past, is_longer):
    assert is_within_longer(read(1, evaluated(done, share)), n_past) is is_longer


@pytest.mark.parametrize(("share", "found"), [("0.50", (0.495, 0.505)), ("1.00", (0.995, 1.005)), ("1.01", None),
                                              ("0.00", (-0.005, 0.005)), ("1", None)])  # fmt: skip
def test_a_share_lies_between_0_and_1(share, found):
    range_of = share_range(read(1, in_slot(5, share)), "share")
    assert range_of == (None if found is None else pytest.approx(found, abs=1e-5))
    assert share_range(read(1, in_slot(5, share)), "other") is None


LAUNCH = "processing task"
CHECK = "Checking checkpoint with [5, 9] against 120..."
ERASED = "erased invalidated context checkpoint (pos_min = 5, pos_max = 9, n_tokens = 10, n_swa = 64, size = 1.0 MiB)"


def sieve(*lines):
    found = LineSieve()
    for line in lines or ("slot", "prompt"):
        found.add(line)
    return found


@pytest.mark.parametrize(("words", "texts", "hides"), [
    ([], ["x"], True), (["a task 1", "b task 2"], ["the task x"], False), (["a task 1", "b task 2"], ["the tas"], True),
    (["a TASK 1", "b Task 2"], ["The tASk x"], False), (["a task 1", "  ", "b"], ["anything"], False),
    (["a task 1"], ["a task 1", "a task"], True), (["x task", "ytask"], ["the task"], False),
    (["a task", "b ta"], [" ta"], False), (["abc"], ["abc"], False), (["abc"], ["ab"], True),
])  # fmt: skip
def test_a_search_leaves_lines_with_a_common_word(words, texts, hides):
    found = LineSieve()
    for word in words:
        found.add(word)
    assert found.hides(texts) is hides


@pytest.mark.parametrize(("raw", "text", "head"), [
    ("I slot: text", "text", "I slot:"), ("text", "text", ""), ("I slot", "text", ""), ("I slot", "", ""),
    ("x" * 130 + "text", "text", "x" * 120), ("\x1b[1mI text", "text", "I"),
])  # fmt: skip
def test_the_text_before_a_message(raw, text, head):
    assert head_of(raw, text) == head


@pytest.mark.parametrize(("value", "number"), [(0, 0), ((1 << 31) - 1, (1 << 31) - 1), (1 << 31, None), (-1, None),
                                               (True, None), (1.0, None), ("1", None)])  # fmt: skip
def test_plausible_counts(value, number):
    line = read(1, in_slot(5, "0.50"))
    line = line._replace(read=line.read._replace(numbers={"n": value, "m": 3}))
    assert (line.number_of("n"), line.number_of("n", "m")) == (number, 3 if number is None else number)
    assert dict(line.without("n").read.numbers) == {"m": 3}


LCP = "selected slot by LCP similarity, sim_best = {share} (> 0.100 thold), f_keep = {keep}"
LRU = "selected slot by LRU, t_last = {last}"


def chosen(text, **more):
    return request(LAUNCH, choice=read(50, text), **more)


@pytest.mark.parametrize(("share", "keep", "before", "found"), [
    ("0.500", "0.250", {"n_tokens": 100},
     {"n_tokens": (100, 100, [99]), "lcp": (50, 50, [50, 99]), "held": (200, 200, [50, 99])}),
    ("0.500", "0.250", {"n_tokens": (100, 102)},
     {"n_tokens": (100, 102, [99]), "lcp": (50, 51, [50, 99]), "held": (200, 204, [50, 99])}),
    ("0.500", "0.250", {"lcp": 30}, {"lcp": (30, 30, [99])}), ("0.500", "0.250", {}, {}),
    ("0.500", "0.250", {"n_tokens": (100, None)}, {"n_tokens": (100, None, [99])}),
    ("0.500", "0.250", {"n_tokens": 1}, {"n_tokens": (1, 1, [99])}),
])  # fmt: skip
def test_the_similarity_of_the_chosen_slot_gives_the_common_prefix(share, keep, before, found):
    numbers = known(**before)
    add_choice(chosen(LCP.format(share=share, keep=keep)), numbers, GRAMMAR, sieve())
    assert values(numbers) == found


@pytest.mark.parametrize(("text", "task", "is_uncached", "found"), [
    (LRU.format(last=-1), 7, True, {"held": (0, 0, [50]), "lcp": (0, 0, [50]), "cache_n": (0, 0, [50])}),
    (LRU.format(last=-1), 7, False, {}), (LRU.format(last=5), 7, True, {}),
    (LRU.format(last=5), 0, True, {"cache_n": (0, 0, [1])}),
])  # fmt: skip
def test_nothing_is_in_a_slot_that_was_never_used(text, task, is_uncached, found):
    one, numbers = chosen(text, is_uncached=is_uncached), known()
    one.task = task
    add_first_use(one, numbers)
    assert values(numbers) == found


@pytest.mark.parametrize(("texts", "before", "lines", "found"), [
    ([LAUNCH, CHECK, ERASED], {}, ["slot", "prompt"], {"lcp": (184, 185, [2, 3])}),
    ([LAUNCH, CHECK, ERASED], {"lcp": 7}, ["slot", "prompt"], {"lcp": (7, 7, [99])}),
    ([LAUNCH, CHECK], {}, ["slot", "prompt"], {}), ([LAUNCH, ERASED], {}, ["slot", "prompt"], {}),
    ([CHECK, ERASED], {}, ["slot", "prompt"], {}), ([LAUNCH, CHECK, ERASED], {}, ["checkpoint"], {}),
])  # fmt: skip
def test_the_threshold_of_checkpoints_lies_a_window_before_the_prefix(texts, before, lines, found):
    numbers = known(**before)
    add_threshold(request(*texts), numbers, GRAMMAR, sieve(*lines))
    assert values(numbers) == found


def similar(number, kind, **numbers):
    found = read(number, LAUNCH)
    return found._replace(read=found.read._replace(line=Line(kind, kind), numbers=numbers, words={}))


def test_the_similarity_line_of_the_slot_prints_the_prefix_and_the_length():
    choice = read(50, LRU.format(last=5))
    lines = [similar(40, "slot_sim", lcp=9, n=80), similar(41, "slot_sim", lcp=30)]
    one = request(LAUNCH, choice=choice, similar=lines)
    one.cache = [similar(45, "pc_save", n_tokens=70), similar(46, "pc_save", n_tokens=60)]
    numbers = known()
    add_choice(one, numbers, GRAMMAR, sieve())
    assert values(numbers) == {"n_tokens": (80, 80, [40]), "lcp": (30, 30, [41, 50]), "held": (60, 60, [46])}


def test_an_empty_slot_holds_nothing():
    one = request(LAUNCH, choice=read(50, LRU.format(last=5)), similar=[similar(41, "slot_skip_empty")])
    numbers = known()
    add_choice(one, numbers, GRAMMAR, sieve())
    assert values(numbers) == {"held": (0, 0, [41, 50]), "lcp": (0, 0, [41, 50])}


@pytest.mark.parametrize(("saved", "is_kept"), [([200], True), ([199], False), ([201], False), ([200, 199], False)])
def test_a_saved_prompt_of_another_length_shows_another_server(saved, is_kept):
    one = chosen(LCP.format(share="0.500", keep="0.250"))
    one.cache = [similar(60 + i, "pc_save", n_tokens=size) for i, size in enumerate(saved)]
    numbers = known(n_tokens=100)
    add_choice(one, numbers, GRAMMAR, sieve())
    assert ("lcp" in numbers.numbers, "held" in numbers.numbers) == (is_kept, is_kept)


def candidate(number, lcp, size, share="0.5"):
    line = similar(number, "pc_cand", lcp=lcp, n_tokens=size)
    return line._replace(read=line.read._replace(words={"f_keep": share, "f_sim": "0.7"}))


@pytest.mark.parametrize(("entries", "found"), [
    ([candidate(20, 40, 60), candidate(21, 10, 90, "0.1")], {"lcp": (40, 40, [20, 30]), "held": (60, 60, [20, 30])}),
    ([candidate(20, 40, 60), candidate(21, 40, 60)], {"lcp": (40, 40, [21, 30]), "held": (60, 60, [21, 30])}),
    ([candidate(20, 40, 60), candidate(21, 40, 61)], {}), ([candidate(31, 40, 60)], {}), ([], {}),
])  # fmt: skip
def test_a_loaded_entry_is_that_with_the_same_shares(entries, found):
    load = candidate(30, None, None)
    load = load._replace(read=load.read._replace(line=Line("pc_load", "x"), numbers={}))
    one = chosen(LCP.format(share="0.500", keep="0.250"), cache=[*entries, load])
    numbers = known(n_tokens=100)
    add_choice(one, numbers, GRAMMAR, sieve("abc", "xyz"))
    assert {name: value for name, value in values(numbers).items() if name != "n_tokens"} == found
    hiding = known(n_tokens=100)
    one.cache.append(similar(33, "pc_load_failed"))
    add_choice(one, hiding, GRAMMAR, sieve())
    assert [*hiding.numbers] == ["n_tokens"]


@pytest.mark.parametrize(("most", "length"), [(2, (100, None)), (4, (100, 100))])
def test_of_many_progress_lines_the_first_and_the_last_are_compared(monkeypatch, most, length):
    """Only the two lines between bound the length from above."""
    monkeypatch.setattr(progress_numbers, "MOST", most)
    numbers = known()
    add_progress(request(*(evaluated(done, f"0.{done}") for done in (50, 10, 90, 51))), numbers)
    assert (numbers.get("n_tokens").low, numbers.get("n_tokens").high) == length
