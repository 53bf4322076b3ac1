"""Deletions in a line: slices that end earlier, and requests that lose their prompt."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import simpler
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal


def line(text):
    words, steps = parse(text)
    return ScenarioLine(words, steps)


def reductions(text, *options):
    """Return the reductions of a line in their order, each as a user types it, with the options that are left."""
    found = [(spell(normal(case.line)), *case.options) for case in simpler(ShrinkCase(line(text), options))]
    return [words[0] if words[1:] == options else words for words in found]


def test_a_line_loses_a_request_an_option_or_tokens_of_a_word():
    assert reductions("A5/B1", "x", "y") == [
        "B1", "A5", ("A5/B1", "y"), ("A5/B1", "x"),
        *["B1"] * 3, *["A1/B1"] * 3, *["A2/B1"] * 3, *["A4/B1"] * 3, *["A5"] * 3]  # fmt: skip


def test_an_action_loses_its_options_its_slot_and_its_file():
    steps = ["A1", "{restart parallel=2 kv_unified=True}", "{save@2 f}", "{restore@0 f}", "{erase@1}"]
    without = ["/".join([*steps[:i], *steps[i + 1 :]]) for i in range(5)]
    assert reductions("/".join(steps)) == [
        without[0],
        without[1], "/".join([steps[0], "{restart kv_unified=True}", *steps[2:]]),
        "/".join([steps[0], "{restart parallel=2}", *steps[2:]]),
        "/".join([*steps[:2], steps[4]]),                     # a file that is not saved is not restored
        "/".join([*steps[:2], "{save@0 f}", *steps[3:]]),
        without[3],
        without[4], "/".join([*steps[:4], "{erase@0}"]),
        *[without[0]] * 3]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), [
    ("A1>r2!@1", ["", "A1>r2@1", "A1!@1", "A1>r2!", "A1>r2!@0", *[""] * 3, *["A1!@1"] * 3, *["A1>r1!@1"] * 3]),
    ("s:S1+u:A1", ["", "u:A1", "s:+u:A1", "s:S1", "s:S1+u:", *["s:+u:A1"] * 3, *["s:S1+u:"] * 3]),
    ("A1{priority=3 cancel_after=0}", ["", "A1{priority=3}", "A1{cancel_after=0}", *[""] * 3]),
    ("A1>4{drafts=3:1}", ["", "A1>4", "A1>4", "A1>4{drafts=1:1}", "A1>4{drafts=2:1}", "A1>4{drafts=3:0}",
                          "A1{drafts=3:1}", "A1>2{drafts=3:1}", "A1>3{drafts=3:1}", *[""] * 3]),
    ("A1{drafts=2:2,1:0}", ["", "A1", "A1{drafts=1:0}", "A1{drafts=1:1,1:0}", "A1{drafts=1:1,1:0}",
                            "A1{drafts=2:0,1:0}", "A1{drafts=2:2}", "A1{drafts=2:2,0:0}", "A1{drafts=2:2,0:0}",
                            *[""] * 3]),
    ("A1>4{cancel_after=3}", ["", "A1", "A1>2", "A1>3", "A1>4", *[f"A1>4{{cancel_after={n}}}" for n in range(3)],
                              *[""] * 3]),
    ("A1/A{together+2}", ["A1", "A1", "A1/A", "A1/A{together}", "A1/A{together}", "A1/A{together+1}", *[""] * 3]),
    ("A9[2:5]/A", ["A9", "A9[2:3]/A", "A9[2:4]/A", "A9[2:5]", *[""] * 3, *["A1"] * 3, "A4[2:]/A", "A4", "A4",
                   "A8[2:5]/A", "A8[2:4]/A", "A8[1:4]/A"]),
    ("A2>b1.c1", ["", "A2", "A2>c1", "A2>b1", *[""] * 3, *["A1>b1.c1"] * 3, *["A2>c1"] * 3, *["A2>b1"] * 3]),
])  # fmt: skip
def test_a_request_loses_a_field_a_piece_or_tokens(text, found):
    assert reductions(text) == found


def test_completions_go_with_their_answers():
    assert reductions("A1>2{n_cmpl=3 answers=a2/b2}")[:7] == [
        "", "A1>2{n_cmpl=3}", "A1>2{n_cmpl=3 answers=b2}", "A1>2{n_cmpl=3 answers=a2}", "A1{n_cmpl=3 answers=a2/b2}",
        "A1>2", "A1>2{n_cmpl=2 answers=a2}"]  # fmt: skip
