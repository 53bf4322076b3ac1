"""Tests of shrunk cases: they are small and still fail."""

from __future__ import annotations

from cachesim.scenarios.notation.shrink import shrink
from cachesim.tools.search.campaign import findings
from cachesim.tools.search.drawn_conversation import draw_conversation, longest

PROFILE = "llama_cpp@b10587"


def drawn(least, seed=0):
    """Return a case with at least this number of requests, at least one of them with 30 tokens or more."""
    while True:
        case = draw_conversation(seed, "llama_cpp")
        if len(case.asked) >= least and longest(case) >= 30:
            return case
        seed += 1


def requests(case):
    return [step.request for step in case.scenario(PROFILE).steps]


def test_a_length_that_words_must_add_up_to():
    def fails(case):
        return any(len(request.prompt) == 17 for request in requests(case)) and len(case.asked) >= 2

    seed = next(seed for seed in range(5000) if fails(draw_conversation(seed, "llama_cpp")))
    small = shrink(draw_conversation(seed, "llama_cpp"), fails, 600)
    assert fails(small)
    assert len(small.asked) == 2
    assert longest(small) == 17
    assert small.given() == {}


def test_two_words_that_are_made_shorter_together():
    """If only the first prompt's excess of 5 tokens matters, both words are shortened together."""
    def fails(case):
        lengths = [len(request.prompt) for request in requests(case) if request.prompt]
        return len(lengths) >= 2 and lengths[0] == lengths[1] + 5

    seed = next(seed for seed in range(9000) if fails(draw_conversation(seed, "llama_cpp")))
    small = shrink(draw_conversation(seed, "llama_cpp"), fails, 600)
    assert fails(small)
    assert longest(small) <= 12


def test_a_shrunk_case_is_the_same_again():
    def fails(case):
        return longest(case) >= 9

    case = drawn(4)
    assert shrink(case, fails, 300) == shrink(case, fails, 300)
    assert longest(shrink(case, fails, 300)) == 9


def test_a_real_failure_keeps_its_finding():
    def fails(case):
        return any("1 tokens" in one.text for one in findings(case, PROFILE, ("stored-equals-cold",), {}))

    case = draw_conversation(14, "llama_cpp", ("GA",))         # the first that fails
    assert fails(case)
    small = shrink(case, fails, 100)
    assert fails(small)
    assert len(small.asked) <= 4 and longest(small) <= 40
