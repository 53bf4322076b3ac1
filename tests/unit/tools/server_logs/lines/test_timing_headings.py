"""Timings below a heading: whose they are, and whether lines are missing among them."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.lines.timing_headings import are_whole_timings

HEAD = "slot print_timing: id  {} | task {} |"
PROMPT = "prompt eval time =     900.00 ms /    {} tokens (    2.22 ms per token,   449.76 tokens per second)"
ANSWER = "       eval time =       9.00 ms /     {} tokens (   26.90 ms per token,    37.18 tokens per second)"
TOTAL = "      total time =     909.00 ms /    {} tokens"
WHOLE = (HEAD.format(0, 7), PROMPT.format(74), ANSWER.format(5), TOTAL.format(79))
RELEASE = "slot release: id  0 | task 7 | stop processing: n_tokens = 78, truncated = 0"
OTHER_RELEASE = RELEASE.replace("0 | task 7", "1 | task 8")


def lines_of(*texts):
    return read_session("llama_cpp", grammars()["llama_cpp"], texts).read_lines


@pytest.mark.parametrize(("texts", "are_whole"), [
    (WHOLE, True), ((WHOLE[0], PROMPT.format(0), WHOLE[2], TOTAL.format(5)), True),
    ((WHOLE[0], PROMPT.format(0), WHOLE[2], TOTAL.format(6)), False),
    ((*WHOLE[:3], TOTAL.format(80)), False),
    ((*WHOLE[:3], TOTAL.format(78)), False),
    (WHOLE[:3], False),
    ((WHOLE[0], WHOLE[2], WHOLE[1], WHOLE[3]), False),
    ((*WHOLE, RELEASE), False),
    (WHOLE[1:], False),                                    # no heading
    ((*WHOLE[:2], HEAD.format(1, 8), *WHOLE[2:]), False),  # two headings
])  # fmt: skip
def test_timings_are_whole_if_their_counts_add_up_below_one_heading(texts, are_whole):
    assert are_whole_timings(lines_of(*texts)) is are_whole


@pytest.mark.parametrize(("texts", "headings"), [
    (WHOLE, [(0, 7)] * 3),
    ((WHOLE[0], "noise", *WHOLE[1:]), [(0, 7), (0, 7), None]),              # three lines below a heading, no more
    ((HEAD.format(1, 8), *WHOLE), [None] * 3),                              # those of task 8 may be any
    ((HEAD.format(0, 7), *WHOLE), [(0, 7)] * 3),
    ((WHOLE[0], PROMPT.format(7), HEAD.format(1, 8), *WHOLE[1:]), [(0, 7), (1, 8), (1, 8), (1, 8)]),
    ((WHOLE[0], RELEASE, HEAD.format(1, 8), *WHOLE[1:]), [None, (1, 8), (1, 8), (1, 8)]),
    ((HEAD.format(1, 8), HEAD.format(0, 7), OTHER_RELEASE, *WHOLE), [None, (0, 7), (0, 7), (0, 7)]),
])  # fmt: skip
def test_timings_are_those_of_the_heading_unless_it_may_be_another(texts, headings):
    assert [line.heading for line in lines_of(*texts)] == headings
