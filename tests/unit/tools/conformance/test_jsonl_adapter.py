"""The end of what a process wrote on stderr."""

from __future__ import annotations

import os

import pytest

from cachesim.tools.conformance.jsonl_adapter import TAIL, StderrTail


def tail_of(data: bytes) -> StderrTail:
    reader, writer = os.pipe()
    tail = StderrTail(os.fdopen(reader, "rb"))
    with os.fdopen(writer, "wb") as stream:
        stream.write(data)
    tail.thread.join()
    return tail


@pytest.mark.parametrize(("data", "line"), [
    (b"", ""), (b"one", "one"), (b"one\ntwo\n\n", "two"), (b"\xff", "\ufffd"),
    (b"x" * (TAIL - 4) + b"\nend", "end"),
    (b"x" * (TAIL - 3) + b"\nend", f"end (the end of {TAIL + 1} bytes on stderr)"),
    (b"ab\n" * TAIL, f"ab (the end of {3 * TAIL} bytes on stderr)"),
])  # fmt: skip
def test_the_last_line_says_how_much_came_before_the_kept_end(data: bytes, line: str) -> None:
    tail = tail_of(data)
    assert tail.last_line() == line
    assert tail.kept == data[-TAIL:] and tail.thread.daemon
