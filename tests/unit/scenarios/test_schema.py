"""Tests of a step that is taken out of its group."""

from __future__ import annotations

from cachesim.scenarios.from_notation import from_line


def test_a_step_by_itself_is_not_sent_together():
    first, second, third = from_line("A4/B4>2!{together+3}/{erase@0}").steps
    alone = second.alone()
    assert (alone.together, alone.after, alone.text) == (False, 0, "B>2!")
    assert alone.request == second.request
    assert first.alone() is first and third.alone() is third


def test_only_a_request_may_wait_for_iterations_after_the_step_before():
    steps = from_line("A4/B4{together+3}/{erase@0}/A{drafts=2:1}").steps
    assert [(step.after, step.together, step.action is None, step.drafts) for step in steps] == [
        (0, False, True, ()), (3, True, True, ()), (0, False, False, ()), (0, False, True, ((2, 1),))]  # fmt: skip
