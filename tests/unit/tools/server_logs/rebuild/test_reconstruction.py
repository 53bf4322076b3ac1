"""Reconstruction of a log: which requests agree with the simulation, and which of two reconstructions is better."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.rebuild.candidate_server import RunningPrompt
from cachesim.tools.server_logs.rebuild.line_agreement import Contradiction
from cachesim.tools.server_logs.rebuild.reconstruction import (
    NEW_CONVERSATION,
    PromptChoice,
    ReconstructedRequest,
    Reconstruction,
    SentRequest,
    logs_reuse,
)
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText
from tests.unit.tools.server_logs.records import logged as request_of

LINE = Contradiction(3, "batch", {"n": 1}, None)


def logged(n_tokens=100, cache_n=None, **numbers):
    ranges = {name: ProvenRange(*value) for name, value in numbers.items()}
    return request_of(n_tokens=n_tokens, cache_n=cache_n, numbers=ranges)


def request(cache_n=40, simulated=40, step=0, n_tokens=100, **more):
    return ReconstructedRequest(logged(n_tokens, cache_n), step=step, simulated_n=simulated, **more)


def made(*requests, **more):
    return Reconstruction("llama_cpp@b11549", "A", {}, list(requests), **more)


def sent(cache_n=40, prompt_n=60, contradicted=()):
    choice = PromptChoice(SlotText(), 0, "")
    return SentRequest("A", RunningPrompt(0, cache_n, prompt_n), choice, "A", 5, SlotText(), SlotText(), contradicted)


@pytest.mark.parametrize(("request_", "agrees"), [
    (logged(cache_n=40), True), (logged(cache_n=41), False), (logged(), True),
    (logged(cache_n=40, prompt_n=(1, 2)), True), (logged(prompt_n=(60, 60)), True), (logged(prompt_n=(61, 70)), False),
])  # fmt: skip
def test_a_prompt_agrees_unless_the_log_contradicts_its_reused_or_evaluated_tokens(request_, agrees):
    assert sent().agrees_with(request_) is agrees
    assert sent().agrees_with(request_of(numbers={"cache_n": ProvenRange(41, 50)})) is False


def test_a_prompt_with_fewer_contradicted_lines_is_nearer():
    none, one = sent(), sent(contradicted=[LINE])
    assert none.is_nearer(one) and not one.is_nearer(none) and not none.is_nearer(none)


def test_the_length_of_a_request_is_that_of_the_log():
    known, unknown = request(), request(n_tokens=None)
    assert (known.n_tokens, known.is_bounded, unknown.n_tokens, unknown.is_bounded) == (100, True, None, False)
    assert request(n_tokens=0).is_bounded


@pytest.mark.parametrize(("request_", "agrees"), [
    (request(), True), (request(simulated=41), False), (request(step=-1), None), (request(cache_n=None), None),
    (request(simulated=None), None),
])  # fmt: skip
def test_a_request_agrees_if_both_numbers_are_known_and_equal(request_, agrees):
    assert request_.agrees is agrees


@pytest.mark.parametrize(("least", "simulated", "agrees"), [(0, 5, None), (0, 6, False), (1, 5, True), (1, 0, False)])
def test_an_upper_bound_contradicts_a_simulation_but_does_not_confirm_it(least, simulated, agrees):
    numbers = {"cache_n": ProvenRange(least, 5)}
    assert ReconstructedRequest(request_of(numbers=numbers), step=0, simulated_n=simulated).agrees is agrees


def test_the_reuse_is_logged_if_it_is_printed_or_bounded():
    found = [logs_reuse(one) for one in (logged(), logged(cache_n=0), logged(cache_n=9), logged(), request_of(
        numbers={"cache_n": ProvenRange(3, 5)}), request_of(numbers={"cache_n": ProvenRange(3, None)}), request_of(
        numbers={"cache_n": ProvenRange(0, 5)}))]  # fmt: skip
    assert found == [False, True, True, False, True, False, False]


WRONG = request(simulated=1)


@pytest.mark.parametrize(("found", "agrees", "is_open"), [
    (made(request(), WRONG), [True, False], [False, False]),
    (made(request(), WRONG, untried_settings=["a"]), [True, None], [False, True]),
    (made(WRONG, WRONG, untried_requests={1}), [False, None], [False, True]),
    (made(WRONG, request(None, n_tokens=None), WRONG), [False, None, None], [False, False, True]),
    (made(request(simulated=1, n_tokens=None), request()), [None, True], [True, False]),
    (made(WRONG, request(n_tokens=None, step=-1), WRONG), [False, None, False], [False] * 3),
    (made(request(cache_n=None), untried_settings=["a"]), [None], [False]),
])  # fmt: skip
def test_a_difference_is_open_where_the_search_stopped_early_or_a_length_before_is_assumed(found, agrees, is_open):
    numbers = range(len(found.requests))
    assert ([*map(found.agrees, numbers)], [*map(found.open, numbers)], found.undecided) == (
        agrees, is_open, sum(is_open))  # fmt: skip


def test_the_requests_with_an_assumed_length_are_those_in_the_scenario():
    unknown = request(n_tokens=None)
    assert made(unknown, request(), request(n_tokens=None, step=-1), unknown).with_length == [0, 3]


@pytest.mark.parametrize(("found", "is_complete"), [
    (made(request()), True), (made(request(), untried_settings=["a"]), False),
    (made(request(), untried_requests={0}), False),
    (made(WRONG), True), (made(request(n_tokens=None)), True), (made(request(simulated=1, n_tokens=None)), False),
    (made(request(n_tokens=None, contradicted=[LINE])), False),
])  # fmt: skip
def test_a_search_is_complete_if_nothing_was_left_out_or_a_length_fits(found, is_complete):
    assert found.is_complete is is_complete


def test_the_score_counts_agreements_differences_lines_and_assumptions():
    unknown = request(cache_n=None, assumed="y", contradicted=[LINE])
    found = made(request(), request(assumed="x"), request(simulated=1, contradicted=[LINE, LINE]),
                 request(assumed=NEW_CONVERSATION), unknown)  # fmt: skip
    assert found.score == (3, -1, -3, -2) and found.contradicted == [LINE] * 3 and found.is_rejected
    assert made().score == (0, 0, 0, 0) and not made(request()).is_rejected
    assert made(request(contradicted=[LINE])).is_rejected and made(WRONG).is_rejected


@pytest.mark.parametrize(("mine", "best", "left", "can"), [
    (made(), made(request()), 1, False), (made(), made(request()), 2, True),
    (made(request()), made(request()), 0, False),
    (made(WRONG), made(request()), 9, False), (made(request(contradicted=[LINE])), made(request()), 9, False),
    (made(WRONG), made(request(), WRONG), 2, True), (made(request(assumed="x")), made(request()), 0, False),
    (made(request(assumed="x")), made(request()), 1, True), (made(request()), made(request(assumed="x")), 0, True),
    (made(), made(WRONG), 0, True),
])  # fmt: skip
def test_a_reconstruction_can_exceed_another_with_the_requests_that_are_left(mine, best, left, can):
    assert mine.can_exceed(best, [logged(cache_n=1)] * left + [logged()]) is can


def test_the_scenario_is_that_of_the_line():
    found = Reconstruction("llama_cpp@b10587", "GA", {"parallel": 2}, line="A5/A")
    scenario = found.scenario
    assert (repr(scenario), scenario.model, scenario.profiles, scenario.server) == (
        "A5/A", "GA", ("llama_cpp@b10587",), {"parallel": 2})  # fmt: skip
