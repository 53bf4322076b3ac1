"""Shrinking with few attempts: what is tried, in which order, and when it ends."""

from __future__ import annotations

from cachesim.tools.live.llama_server.real.shrinking import shrink
from tests.unit.tools.search.test_drawn_conversation import made


def tried(case, fails, stop=lambda: False):
    """Return the lines and options of the conversations that were tried."""
    seen = []

    def check(smaller):
        typed = smaller.typed("llama_cpp@b11549")
        seen.append((typed["line"], typed["server"]))
        return fails(smaller)

    shrink(case, check, stop)
    return seen


def test_requests_go_last_first_then_words_are_shortened():
    case = made("llama_cpp", {"A": 9, "B": 5}, "A", "A.B")
    lines = [line for line, _ in tried(case, lambda smaller: False)]
    assert lines[:2] == ["A9", "A9.B5"]
    assert {"A1/A.B5", "A4/A.B5", "A8/A.B5", "A9/A.B1", "A9/A.B4"} <= {*lines}
    assert lines.index("A9/A.B1") < lines.index("A9/A.B4") < lines.index("A1/A.B5") < lines.index("A8/A.B5")


def test_what_fails_is_the_base_of_the_next_attempts():
    case = made("llama_cpp", {"A": 9, "B": 5}, "A", "A.B", server={"ctx_size": 64})
    seen = tried(case, lambda smaller: len(smaller.asked) == 1 and smaller.words.get("A", 0) >= 4)
    assert seen[:2] == [("A9", {"ctx_size": 64}), ("A9", {})] and seen[-1][1] == {}
    assert ("A4", {}) in seen and all("/" not in line for line, _ in seen)


def test_nothing_is_tried_after_the_stop_or_without_requests():
    case = made("llama_cpp", {"A": 9, "B": 5}, "A", "A.B")
    assert tried(case, lambda smaller: False, lambda: True) == []
    left = iter([False, True])
    assert len(tried(case, lambda smaller: False, lambda: next(left))) == 1
    assert "" not in [line for line, _ in tried(made("llama_cpp", {"A": 9}, "A"), lambda smaller: True)]


def test_every_length_is_tried_once_and_the_first_that_fails_is_kept():
    case = made("llama_cpp", {"A": 20}, "A")
    lines = [line for line, _ in tried(case, lambda smaller: False)]
    assert lines == ["A1", "A4", "A10", "A19"]
    assert [line for line, _ in tried(case, lambda smaller: smaller.words["A"] >= 4)] == ["A1", "A4"]


def test_options_are_removed_the_last_first():
    case = made("llama_cpp", {"A": 1}, "A", server={"ctx_size": 64, "parallel": 2})
    seen = [server for _, server in tried(case, lambda smaller: False)]
    assert seen == [{"ctx_size": 64}, {"parallel": 2}]
    assert [server for _, server in tried(case, lambda smaller: True)] == [{"ctx_size": 64}, {}]
