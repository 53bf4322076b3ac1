"""Tests of the noise measurement and the tolerance."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.known_faults import LEGAL, ROUNDS, measure, repeats, tolerance_of
from tests.unit.tools.conformance.http_check.in_process import Toy, stage_of

LINE = "A9/A.B3"


def only(number, size):
    """Return a server whose answer to a single request is off."""
    return lambda request, prompt, reused: size if request == number else 0.0


@pytest.mark.parametrize("size, same", [(0.0, True), (LEGAL, True), (0.031, False), (1.0, False)])
@pytest.mark.parametrize("request_", [1, 2, 3])
def test_a_server_repeats_itself_up_to_the_largest_noise(size, same, request_):
    assert repeats(stage_of(Toy(apart=only(request_, size)))) is same


def test_ten_times_the_noise_is_allowed_between_two_bounds():
    assert [tolerance_of(size) for size in (0.0, 0.0001, 0.002, 1.0)] == [0.005, 0.005, 0.02, 0.1]


def test_the_noise_is_the_largest_legal_difference_of_a_prompt_that_was_split():
    assert measure(stage_of(Toy()), 70) == 0
    split = Toy(apart=lambda request, prompt, reused: 0.02 if reused > 30 else 0.0)
    assert 0.0199 < measure(stage_of(split), 70) < 0.0201
    wrong = Toy(apart=lambda request, prompt, reused: 0.04 if reused else 0.0)
    assert measure(stage_of(wrong), 70) == 0                      # a fault, which no tolerance may hide
    little = Toy(apart=lambda request, prompt, reused: 0.02 if 0 < reused * 2 < len(prompt) else 0.0)
    assert measure(stage_of(little), 70) == 0


@pytest.mark.parametrize("most, longest", [(40, 69), (64, 69), (512, 517)])
def test_prompts_are_no_longer_than_the_server_takes(most, longest):
    stage = stage_of(Toy())
    measure(stage, most)
    assert max(len(body["prompt"]) for _, body in stage.http.asked) <= min(longest, 2 * most)


def test_a_server_that_answers_nothing_is_refused():
    for ask in (repeats, lambda stage: measure(stage, 64)):
        with pytest.raises(BadInput, match="status 500: boom"):
            ask(stage_of(lambda body: (500, {"error": "boom"})))


def test_no_more_requests_are_sent_than_are_allowed():
    stage = stage_of(Toy(), most=20)
    measure(stage, 64)
    assert stage.http.sent == 20


@pytest.mark.parametrize("repetition", range(ROUNDS))
def test_noise_in_any_repetition_counts(repetition):
    stage = stage_of(Toy())
    assert measure(stage, 64, [LINE]) == 0
    n = len(stage.http.asked) // ROUNDS
    toy = Toy(apart=lambda request, prompt, reused: 0.02 if request // n == repetition and reused > 4 else 0.0)
    assert 0.0199 < measure(stage_of(toy), 64, [LINE]) < 0.0201


def test_only_the_given_histories_are_sent():
    stage = stage_of(Toy())
    measure(stage, 64, ["A5"])
    assert {len(body["prompt"]) for _, body in stage.http.asked} == {5}
