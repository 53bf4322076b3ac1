"""Client histories: tokens of a vocabulary, properties of a history, and turns in words."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.request_spec import FIRST, STRIDE
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.conformance.client_history import (
    SLOTS,
    HistoryTurn,
    TokenDictionary,
    fits,
    history_from_turns,
    parse_history,
)

VOCABULARY = range(1_000, 1_100)                    # three tokens for each of 32 words, and four that are left over


def word(number, *tokens):
    return tuple(FIRST + number * STRIDE + token for token in tokens)


def test_each_word_has_every_32nd_token():
    tokens = TokenDictionary(VOCABULARY)
    assert tokens.size == 96
    assert tokens.real(word(0, 0, 1, 2, 3)) == (1_000, 1_032, 1_064, 1_000)
    assert tokens.real(word(31, 0, 1, 2, 3)) == (1_031, 1_063, 1_095, 1_031)
    every = [set(tokens.real(word(number, *range(9)))) for number in range(SLOTS)]
    assert sum(map(len, every)) == len(set.union(*every)) == 96


def test_the_word_of_an_answer_stands_for_what_was_generated():
    tokens = TokenDictionary(VOCABULARY)
    tokens.bind(word(1, 0, 1), (7, 8))
    assert tokens.real(word(1, 0, 1, 2)) == (7, 8, 1_065)
    tokens.bind(word(1, 0, 1), (9,))
    tokens.bind(None, (1,))
    tokens.bind(word(2, 0), None)
    assert tokens.real((*word(1, 0, 1), *word(2, 0))) == (9, 8, 1_002)


def test_images_differ_by_the_name_of_the_dictionary():
    items = image_items("x", 3, 1)
    found = [TokenDictionary(VOCABULARY, name).real(items) for name in ("a", "a", "b")]
    assert found[0] == found[1] != found[2] and len(found[0]) == 3
    assert found[0] == image_items(f"a/{items[0]}", 3, 1)


@pytest.mark.parametrize(("tokens", "does"), [
    ((), True), (word(0, 0), True), (word(31, STRIDE - 1), True), (word(32, 0), False), ((FIRST - 1,), False),
    (image_items("x", 2, 1), True), ((*word(0, 0), 3), False),
])  # fmt: skip
def test_tokens_fit_if_they_are_of_32_words(tokens, does):
    assert fits(tokens) is does


@pytest.mark.parametrize(("line", "names"), [
    ("A5/A", ""), ("A5@0", "spread"), ("A5/A@1/A", "spread"),
    ("A5{n_cmpl=2}", "keyed bursts spread"), ("A5{lora=0:1}", "keyed"), ("A5.I4x1.B1", "images keyed"),
    ("A5/A{together}", "bursts spread"),
])  # fmt: skip
def test_what_a_history_needs(line, names):
    history = parse_history(line)
    found = {"images": history.has_images, "keyed": history.is_keyed, "bursts": history.has_bursts,
             "spread": history.is_spread}  # fmt: skip
    assert " ".join(name for name in ("images", "keyed", "bursts", "spread") if found[name]) == names


def test_the_numbers_of_a_history_are_those_of_its_requests():
    history = parse_history("A5>2/A.B3>2{cancel_after=1}/A")
    assert (history.line, history.tokens, history.hang_ups) == ("A5>2/A.B3>2{cancel_after=1}/A", 18, (None, 1, None))
    assert [one.n_predict for one in history.asked] == [2, 2, None]
    scenario = history.scenario
    assert (scenario.engine, scenario.profiles, scenario.model) == ("llama_cpp", (DEFAULT_PROFILE,), "A")


@pytest.mark.parametrize(("line", "uncached"), [
    ("A5/A", "A5!/A!"), ("A5>2@1/A{together}", "A5>2!/A!{together}"),
    ("A5{n_cmpl=3}/A", "A5!/A!{together}/A!{together}/A!"),
    ("A5/A{n_cmpl=2 together}", "A5!/A!{together}/A!{together}"),
])  # fmt: skip
def test_without_the_cache_further_completions_are_requests(line, uncached):
    assert parse_history(line).uncached.line == uncached


def test_a_history_is_reduced_to_a_shrunk_line():
    history = parse_history("A5/A.B3")
    assert history.shrinkable == ShrinkCase(history.scenario.line)
    assert history.reduced_to(ShrinkCase(parse_history("A2/A").scenario.line)).line == "A2/A"
    for words, is_valid in ((SLOTS, True), (SLOTS + 1, False)):
        line = ".".join(f"{letters(number)}1" for number in range(words))
        small = ShrinkCase(parse_history(line).scenario.line)
        assert (history.reduced_to(small) is not None) is is_valid
    invalid = ShrinkCase(history.scenario.line._replace(words={"A": 5}))
    assert history.reduced_to(invalid) is None
    tree = parse_history("A5").scenario.line                    # its answer ends after 1 token
    late = tree._replace(steps=(tree.steps[0]._replace(cancel_after=1),))
    assert history.reduced_to(ShrinkCase(late)) is None


def turn(kind, after=0, cut=0, new=3, predict=1, **more):
    return HistoryTurn(kind, after, cut, new, predict, **more)


@pytest.mark.parametrize(("turns", "line"), [
    ([turn("append"), turn("append")], "A3>a1/A.a.B3"),
    ([turn("repeat"), turn("extend"), turn("repeat")], "A3/A.B3/A.B"),
    ([turn("new"), turn("new"), turn("repeat", 1)], "A3/B3/A"),
    ([turn("new"), turn("new"), turn("repeat", 2)], "A3/B3/B"),
    ([turn("new"), turn("prefix", 0, 1)], "A3/A[:2]"), ([turn("new"), turn("prefix", 0, 2)], "A3/A[:1]"),
    ([turn("new"), turn("prefix", 0, 3)], "A3/A[:1]"), ([turn("new", predict=4), turn("prefix")], "A3>a4/A.a[:3]"),
    ([turn("new"), turn("branch", 0, 1)], "A3/A[:2].B3"), ([turn("new", together=True), turn("new", together=True)],
                                                          "A3/B3{together}"),
    ([turn("new"), turn("append"), turn("append")], "A3>a1/A.a.B3>b1/A.a.B.b.C3"),
    ([turn("new"), turn("append"), turn("append", 1)], "A3>a1/A.a.B3/A.a.C3"),
])  # fmt: skip
def test_turns_relate_to_an_earlier_turn(turns, line):
    assert history_from_turns(turns, 99).line == line


@pytest.mark.parametrize(("most", "line"), [
    (7, "A3>a1/A.a.B3/A.a.B"), (6, "A3>a1/A.a.B3[:2]/A.a.B[:2]"), (4, "A3>a1/A.a/A.a"), (3, "A3/A/A"),
    (2, "A3[:2]/A[:2]/A[:2]"),
])  # fmt: skip
def test_prompts_are_cut_to_the_most_tokens(most, line):
    assert history_from_turns([turn("new"), turn("append"), turn("repeat")], most).line == line


@pytest.mark.parametrize(("names", "line"), [
    ((), "A9!/A.B3>2{cancel_after=1}/C2{together}"), (("cache",), "A9/A.B3>2{cancel_after=1}/C2{together}"),
    (("cancel",), "A9!/A.B3>2/C2{together}"), (("burst",), "A9!/A.B3>2{cancel_after=1}/C2"),
    (("cache", "cancel", "burst"), "A9/A.B3>2/C2"),
])  # fmt: skip
def test_special_requests_become_plain_ones(names, line):
    history = parse_history("A9!/A.B3>2{cancel_after=1}/C2{together}")
    assert history.without(*names).line == parse_history(line).line
