"""Conversations and requests: their bounds, their notation, and the line that a failure shrinks to."""

from __future__ import annotations

from inspect import signature
from itertools import pairwise

import pytest
from hypothesis import Phase, assume, example, find, given, settings, target
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.errors import NoSuchExample

from cachesim.base.tokens import common_prefix
from cachesim.scenarios.notation.tree import Action
from cachesim.strategies import (
    ClientConversation,
    ClientRequest,
    conversation,
    conversations,
    joined,
    request,
    requests,
    server,
    servers,
    text_of,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=30, print_blob=False,
                 phases=[Phase.explicit, Phase.generate, Phase.shrink])  # fmt: skip


def smallest(strategy, condition, most=400):
    """Return what a value that meets a condition shrinks to, found within ``most`` examples."""
    return find(strategy, condition, settings=settings(FIXED, max_examples=most))


def reused(drawn):
    """Return the longest prefix that a prompt of a conversation shares with one before it."""
    prompts = [one.prompt for one in drawn.requests]
    return max((common_prefix(a, b) for i, a in enumerate(prompts) for b in prompts[:i]), default=0)


@FIXED
@given(conversations(max_requests=3, max_prompt=20, near=[8]))
def test_a_conversation_keeps_its_bounds(drawn):
    assert 1 <= len(drawn.requests) <= 3
    assert all(1 <= len(one.prompt) <= 20 and one.n_predict >= 1 for one in drawn.requests)
    assert all(one.cache and one.cancel_after is None and not one.together for one in drawn.requests)


@FIXED
@given(conversations(abilities=["cache", "burst", "cancel_prompt"]))
def test_repr_is_a_line_that_reads_back(drawn):
    assert repr(drawn) == drawn.line == repr(drawn.scenario())
    assert conversation(drawn.line) == drawn


@pytest.mark.part(3)
@pytest.mark.parametrize(("condition", "line"), [
    (lambda drawn: True, "A1"),
    (lambda drawn: reused(drawn) >= 7, "A7/A"),
    (lambda drawn: reused(drawn) and not drawn.requests[-1].cache, "A1/A!"),
    (lambda drawn: any(one.together and common_prefix(one.prompt, before.prompt)
                       for before, one in pairwise(drawn.requests)), "A1/A{together}"),
    (lambda drawn: any(one.n_predict > 2 for one in drawn.requests), "A1>3"),
    (lambda drawn: len({one.prompt[:1] for one in drawn.requests}) == 2, "A1/B1"),
])
def test_a_failure_shrinks_to_the_shortest_line(condition, line):
    assert repr(smallest(conversations(abilities=["cache", "burst", "cancel_answer"]), condition)) == line


def test_steps_of_a_server_that_are_not_requests_are_drawn():
    """With a fixed server this takes a tenth of the time that it takes with a drawn one."""
    strategy = conversations(server("llama_cpp", "A", parallel=1), max_prompt=40)
    found = smallest(strategy, lambda drawn: any(isinstance(step, Action) for step in drawn.tree.steps))
    assert repr(found) in ("{restart}", "{erase@0}", "{save@0 fa}")


def test_words_of_a_conversation_for_a_server_have_canonical_names():
    strategy = conversations(server("llama_cpp", "A", parallel=1), max_prompt=40)
    assert repr(smallest(strategy, lambda drawn: len(drawn.requests) == 1, most=60)) == "A1"


@pytest.mark.long
def test_servers_and_their_conversations_are_drawn_together():
    found = smallest(servers("llama_cpp").flatmap(conversations), lambda drawn: len(drawn.tree.steps) == 2, most=40)
    assert isinstance(found, ClientConversation)


@FIXED
@given(requests(words=2, max_words=2, max_length=9, near=[8], max_predict=3))
def test_a_request_keeps_its_bounds_and_reads_back(drawn):
    assert 1 <= len(drawn.prompt) <= 18 and 1 <= drawn.n_predict <= 3
    assert {sign for sign in repr(drawn) if sign.isalpha()} <= {"A", "B"}
    assert request(repr(drawn)) == drawn
    assert text_of(drawn.prompt) == repr(drawn).partition(">")[0]


def test_sizes_are_drawn_with_their_neighbours():
    lengths = []
    settings(FIXED, max_examples=150)(given(requests(words=1, max_length=1000, near=[500]))(
        lambda drawn: lengths.append(len(drawn.prompt))))()  # fmt: skip
    assert {499, 500, 501} <= set(lengths)


@FIXED
@given(st.lists(requests(), min_size=1, max_size=5))
def test_joined_requests_share_what_they_shared(drawn):
    lengths = [[common_prefix(a.prompt, b.prompt) for b in drawn] for a in drawn]
    prompts = [one.prompt for one in joined(drawn).requests]
    assert [[common_prefix(a, b) for b in prompts] for a in prompts] == lengths


@pytest.mark.long
def test_values_can_be_mapped_filtered_and_combined():
    strategy = st.tuples(conversations().filter(lambda drawn: len(drawn.requests) > 1), requests()).map(list)
    first, second = smallest(strategy, lambda drawn: True)
    assert len(first.requests) == 2 and repr(second) == "A1" and isinstance(second, ClientRequest)


def failing(test):
    with pytest.raises(AssertionError) as failed:
        test()
    return failed.value


def test_a_failure_prints_the_line_and_how_to_repeat_it():
    @FIXED
    @given(conversations())
    def test(drawn):
        assert reused(drawn) < 3

    again, shown = failing(test).__notes__
    assert again == "again: @example(conversation('A3/A'))"
    assert shown.partition(": ")[2] == "test(\n    drawn=A3/A,\n)"


def test_an_example_runs_first():
    seen = []

    @FIXED
    @example(conversation("A5/A.B2"))
    @given(conversations())
    def test(drawn):
        seen.append(drawn)

    test()
    assert repr(seen[0]) == "A5/A.B2"


def test_the_database_repeats_a_failure_first():
    runs, database = [], InMemoryExampleDatabase()

    @settings(FIXED, derandomize=False, database=database, phases=[Phase.reuse, Phase.generate, Phase.shrink])
    @given(conversations())
    def test(drawn):
        runs.append(repr(drawn))
        assert reused(drawn) < 3

    failing(test)
    assert runs[-1] == "A3/A"
    runs.clear()
    failing(test)
    assert runs[0] == "A3/A"


def test_target_may_be_called():
    runs = []

    @settings(FIXED, max_examples=40, phases=[Phase.generate, Phase.target])
    @given(conversations(max_requests=2))
    def test(drawn):
        runs.append(drawn)
        target(float(reused(drawn)))

    test()
    assert len(runs) >= 40


def test_most_examples_differ():
    """Hypothesis copies equal spans of an example over each other; the numbers of a line have none."""
    lines = []

    @settings(FIXED, max_examples=100, phases=[Phase.generate])
    @given(conversations())
    def test(drawn):
        lines.append(repr(drawn))

    test()
    assert len(set(lines)) > 70


def test_a_condition_that_never_holds_has_no_example():
    with pytest.raises(NoSuchExample):
        smallest(conversations(max_requests=1), lambda drawn: len(drawn.requests) > 1, most=20)


def test_assume_works():
    @FIXED
    @given(conversations())
    def test(drawn):
        assume(len(drawn.requests) > 1)
        assert len(drawn.requests) > 1

    test()


def test_the_bounds_of_drawn_values_are_those_of_the_page():
    found = {name: one.default for name, one in signature(requests).parameters.items()}
    assert found == {"words": 4, "max_words": 4, "max_length": 24, "near": (), "max_predict": 1}
    found = {name: one.default for name, one in signature(conversations).parameters.items()}
    assert found == {"server": None, "max_requests": 6, "max_prompt": None, "near": (), "abilities": ()}


@FIXED
@given(requests(words=1, max_words=1, max_length=2))
def test_a_word_is_at_most_as_long_as_the_longest(drawn):
    assert 1 <= len(drawn.prompt) <= 2


def test_short_words_are_as_likely_as_all_others():
    """A prompt of a word of at most 4 tokens is found within a few examples, though words may have 200."""
    assert len(smallest(requests(words=1, max_words=1, max_length=200), lambda drawn: 2 <= len(drawn.prompt) <= 4,
                        40).prompt) == 2  # fmt: skip


@settings(FIXED, max_examples=12)
@given(conversations(server("vllm", "A"), max_requests=2, max_prompt=5))
def test_a_conversation_for_a_server_keeps_its_bounds(drawn):
    assert len(drawn.tree.steps) <= 2
    assert all(len(one.prompt) <= 5 for one in drawn.requests)
