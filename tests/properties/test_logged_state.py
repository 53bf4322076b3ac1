"""The log of a server says what it does: a reader of its lines alone knows the slot's checkpoints, its tokens, and what
was reused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.histories import SMALL, histories, keen, requests, short_histories
from tests.unit.engines.llama_cpp.talk import Talk

pytestmark = pytest.mark.long
REMOVED = ("ckpt_evict", "ckpt_invalidate", "ckpt_too_close")
Span = tuple[int, int, int]


class LogReader:
    """What the lines about a single slot without prompt cache say. ``checkpoints``: pos_min, pos_max and n_tokens."""

    def __init__(self, most: int) -> None:
        self.most, self.checkpoints, self.counts = most, list[Span](), dict[str, int]()
        self.reused, self.held, self.prompt, self.due, self.end = 0, 0, 0, False, -1

    def read(self, line: dict[str, Any]) -> None:
        """Take the next line; it must not contradict the lines before it."""
        kind = line["ev"]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        span = tuple(line.get(name, -1) for name in ("pos_min", "pos_max", "n_tokens"))
        if kind == "launch":
            self.counts, self.end = {kind: 1}, -1
        elif kind == "new_prompt":
            self.prompt = line["n_tokens"]
        elif kind == "batch":
            self.reused = line["n_tokens"] if self.end < 0 else self.reused
            assert line["n_tokens"] == line["p0"] > self.end or self.end < 0
            self.end = line["n_tokens"]
        elif kind == "do_ckpt":
            assert not self.due and line["pos_max"] == self.end - 1
            self.due = line["yes"]
        elif kind == "ckpt_create":
            assert self.due and span[2] == self.end == span[1] + 1
            self.checkpoints.append(span)
            self.due = False
            assert (line["n"], line["max"]) == (len(self.checkpoints), self.most)
        elif kind in REMOVED:
            self.checkpoints.remove(span)
        elif kind == "ckpt_search":
            assert line["n_tokens"] == self.held and line["n_past"] <= min(self.held, self.prompt)
        elif kind in ("ckpt_check", "ckpt_restore"):
            assert span[:2] in {one[:2] for one in self.checkpoints}
        elif kind == "release":
            assert not self.due
            self.held = line["n_tokens"]


@settings(max_examples=80)
@given(st.sampled_from("AWRH"), keen, st.integers(1, 4), histories | short_histories)
def test_the_log_alone_says_what_the_slot_holds(kind, options, most, history):
    options = {**options, "cache_ram": 0, "ctx_checkpoints": most, "parallel": 1}
    talk, read = Talk(kind, "b10587", "none", rules=SMALL, **options), LogReader(most)
    for prompt, more in requests(history):
        answer = talk.ask(prompt, **{**more, "id_slot": -1})
        for line in talk.events(answer):
            read.read(line)
        if answer.status != 200:
            continue
        (slot,) = talk.server.core.slots
        assert read.checkpoints == [(c.facts.pos_min, c.facts.pos_max, c.facts.n_tokens) for c in slot.checkpoints]
        assert (read.reused, read.prompt, read.held) == (answer.cache_n, len(prompt), len(slot.tokens))
        assert [read.counts.get(name) for name in ("launch", "new_prompt", "release")] == [1, 1, 1]
        assert read.counts["batch"] == read.counts["do_ckpt"]
