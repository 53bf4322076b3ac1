"""Tests of the messages about a server's end, from its log."""

from __future__ import annotations

import pytest

from cachesim.tools.live.llama_server.process import TAIL, fatal_lines


@pytest.mark.parametrize(("text", "found"), [
    ("a.cpp:7: GGML_ASSERT(x) failed\n", ["a.cpp:7: GGML_ASSERT(x) failed"]),
    ("/src/ggml/ggml.c:12: fatal error \nbt\nlib/kv-cache.cpp:9: no room",
     ["ggml.c:12: fatal error", "kv-cache.cpp:9: no room"]),
    ("0.1 I srv: see a.cpp:7: this is no message\n", []), ("", []), ("\xff\xfe a.cpp:7: x\na.cpp: 7\n", []),
])  # fmt: skip
def test_messages_of_failures_are_read_from_the_end_of_a_log(tmp_path, text, found):
    (log := tmp_path / "log").write_bytes(text.encode("latin-1"))
    assert list(fatal_lines(log)) == found


def test_what_lies_far_before_the_end_is_not_read(tmp_path):
    (log := tmp_path / "log").write_text("a.cpp:1: long ago\n" + TAIL * "." + "\nb.cpp:2: now\n")
    assert list(fatal_lines(log)) == ["b.cpp:2: now"]
