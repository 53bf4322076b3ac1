"""Listener of a check: it takes every report and answers nothing."""

from __future__ import annotations

from cachesim.tools.conformance.http_check.listener import SILENT, CheckListener, FoundFault


def test_a_listener_ignores_every_report_and_keeps_nothing():
    fault = FoundFault("append", "A2/A", 1, 9, "a sentence")
    answers = [SILENT.stage("cold"), SILENT.stage("warm", 9), SILENT.history(), SILENT.request(1), SILENT.fault(fault),
               SILENT.rule("a rule")]  # fmt: skip
    assert type(SILENT) is CheckListener and answers == [None] * 6 and vars(SILENT) == {}


def test_a_listener_that_takes_some_reports_ignores_the_others():
    class Counting(CheckListener):
        number = 0

        def request(self, number):
            self.number = number

    counting = Counting()
    for number in (1, 2, 3):
        counting.request(number)
    counting.stage("warm")
    counting.history()
    assert counting.number == 3
