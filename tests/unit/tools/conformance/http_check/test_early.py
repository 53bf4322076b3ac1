"""Tests that known faults are found with few requests, and that a single difference does not count."""

from __future__ import annotations

from cachesim.tools.conformance.http_check.known_faults import look
from tests.unit.tools.conformance.http_check.in_process import Toy, stage_of


def found(apart, most=64):
    return [(one.line, one.check.request, one.sent) for one in look(stage_of(Toy(apart=apart)), most)]


def test_a_sound_server_shows_nothing():
    assert found(lambda request, prompt, reused: 0.0) == []


def test_a_large_difference_has_to_come_twice():
    [(line, request, sent)] = found(lambda request, prompt, reused: 0.2 if reused == 1 else 0.0)
    assert (line, request) == ("A5/B10/B[:1].C5", 2) and sent <= 15
    seen = []

    def once(request, prompt, reused):
        seen.append(1) if reused == 1 else None
        return 0.2 if reused == 1 and len(seen) == 1 else 0.0

    assert found(once) == []


def test_a_smaller_difference_has_to_come_three_times():
    [(_, _, late)] = found(lambda request, prompt, reused: 0.05 if reused == 1 else 0.0)
    [(_, _, early)] = found(lambda request, prompt, reused: 0.2 if reused == 1 else 0.0)
    assert late > early
    seen = []

    def twice(request, prompt, reused):
        seen.append(1) if reused == 1 else None
        return 0.05 if reused == 1 and len(seen) <= 2 else 0.0

    assert found(twice) == []


def test_noise_is_no_fault():
    assert found(lambda request, prompt, reused: 0.03 if reused else 0.0) == []


def test_of_several_histories_that_differ_the_one_that_reused_most_is_told():
    [(line, request, _)] = found(lambda request, prompt, reused: 0.2 if reused > 6 else 0.0)
    assert (line, request) == ("C37/C[:32]>8", 1)
