"""Deletions in a line: slices that end earlier, and requests that lose their prompt."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import _earlier, _following, _shortened, _texts, simpler
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal


def line(text):
    words, steps = parse(text)
    return ScenarioLine(words, steps)


def spelled(piece):
    """Return a piece as the notation writes it."""
    slice_ = "" if piece.stop is None else f"[{piece.start or ''}:{piece.stop}]"
    return f"{'|' * piece.user}{piece.word}{slice_}"


@pytest.mark.parametrize("start, stop, front, end, sliced", [
    (3, 9, 2, 4, (1, 5)), (1, 3, 2, 4, (0, 0)), (None, 9, 2, 4, (None, 5)), (3, None, 2, 4, (1, None)),
])  # fmt: skip
def test_a_slice_moves_towards_the_beginning_and_not_beyond(start, stop, front, end, sliced):
    found = _earlier(Piece("A", start=start, stop=stop), front, end)
    assert (found.start, found.stop) == sliced


@pytest.mark.parametrize("text, less, found", [
    ("A9/A.B2", 5, "A5/A.B2"), ("A9/B2.A[:8]", 5, "A5/B2.A[:4]"), ("A9/A[6:]/B2", 5, "A5/A[2:]/B2"),
])  # fmt: skip
def test_a_shorter_word_is_shorter_in_every_request(text, less, found):
    assert spell(_shortened(line(text), "A", less, front=4, end=4)) == found


def test_other_fields_follow_a_field():
    step = LineRequest((Piece("A"),), answers=((Piece("b"),), (Piece("c"),)))
    assert _following("n_cmpl", 2, step) == {"answers": step.answers[:1]}
    assert _following("together", False, step) == {"after": 0} and _following("cache_prompt", True, step) == {}


@pytest.mark.parametrize("text, found", [
    ("A", [""]), ("A.B.C", ["B.C", "A.C", "A.B"]), ("|A.B", ["B", "A.B", "|A"]),
    ("A[:8]", ["", "A[:1]", "A[:4]", "A[:7]"]), ("A[2:4]", ["", "A[2:3]"]), ("B.A[3:8]", ["A[3:8]", "B", "B.A[3:4]",
     "B.A[3:6]", "B.A[3:7]"]), ("A[4:5]", [""]),
])  # fmt: skip
def test_a_text_loses_a_piece_a_mark_or_the_end_of_a_slice(text, found):
    (*_, step) = line(f"A9.B9.C9/{text}").steps
    assert [".".join(spelled(piece) for piece in one) for one in _texts(step.prompt)] == found


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
