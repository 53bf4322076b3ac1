"""Tests of the histories of known faults: lengths, and windows that a server states."""

from __future__ import annotations

from cachesim.tools.conformance.http_check.known_faults import (
    early_lines,
    known_lines,
    windows,
)


def test_early_histories_are_one_of_each_fault():
    stale, neighbour, sized = early_lines(1_100, (48,))
    assert stale == ("A5/B10/B[:1].C5",) and neighbour == ("S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3",)
    assert sized[:4] == ("A13/A[:8]>8", "B21/B[:16]>8", "C37/C[:32]>8", "D53/D[:48]>8") and len(sized) == 9


def test_histories_fit_the_longest_prompt():
    assert [len(lines) for lines in early_lines(610)] == [1, 7]
    assert [len(lines) for lines in early_lines(611)] == [1, 1, 7]
    assert list(early_lines(21))[1] == ("A13/A[:8]>8", "B21/B[:16]>8")
    assert list(known_lines(21)) == [
        "A5/B10/B[:1].C5", "A5/B10/B[:3].C3", "A13/A[:8]>8", "A21/A[:16]>8", "A17/A[:8]>8"]


def test_sizes_that_a_server_states_are_among_the_windows():
    assert windows((48,)) == [8, 16, 32, 48, 64, 128, 256, 512, 1024]
    assert windows(range(2, 20)) == list(range(2, 12))
