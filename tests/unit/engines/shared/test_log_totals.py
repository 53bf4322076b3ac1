"""Totals of the lines of each engine of a server."""

from __future__ import annotations

from cachesim.engines.shared.log_totals import LoggedNumbers, by_engine


def test_lines_are_divided_by_engine_and_labelled_if_there_are_several():
    lines = [LoggedNumbers(at, "rate", {} if engine is None else {"engine": engine})
             for at, engine in enumerate((1, 0, 1, None))]  # fmt: skip
    assert [(label, [line.line for line in own]) for label, own in by_engine(lines)] == [
        ("engine : ", [3]), ("engine 0: ", [1]), ("engine 1: ", [0, 2])]  # fmt: skip
    assert [(label, len(own)) for label, own in by_engine(lines[:1])] == [("", 1)]
    assert [*by_engine([])] == []
