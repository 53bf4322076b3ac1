"""Deletions in a line: slices that end earlier, and requests that lose their prompt."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import _earlier, _following, _shortened, _texts
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine


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
