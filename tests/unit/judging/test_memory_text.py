"""Sentences about the memory of a request, and how many of its objects they list."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.judging.memory_text import memory_parts

NOTHING: dict[str, Any] = {"sizes": [], "uncounted": 0, "draft_memory": None, "micro_batches": []}


def size(tokens: int, kind: str = "checkpoint", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "tokens": tokens, "bytes": 1000 * tokens, "entry_type": "", "draft_bytes": 0,
            "checkpoint_bytes": 0, **more}  # fmt: skip


def batch(part: str, *spans: tuple[int, int, int], repeats: int = 1) -> dict[str, Any]:
    return {"part": part, "spans": [list(span) for span in spans], "repeats": repeats}


@pytest.mark.parametrize(("n", "more"), [(8, ""), (9, ", .."), (10, ", ..")])
def test_eight_objects_and_micro_batches_are_listed(n, more):
    listed = ", ".join(f"{at} tokens {1000 * at:,}" for at in range(2, 10))
    total = 1000 * sum(range(2, n + 2))
    request = {**NOTHING, "sizes": [size(at) for at in range(2, n + 2)],
               "micro_batches": [batch("draft", (1, at, 1)) for at in range(n)]}  # fmt: skip
    assert list(memory_parts(request)) == [
        f"checkpoints: {total:,} bytes ({listed}{more})",
        f"{n} micro-batches of the draft model: {', '.join(f'slot 1: {at}' for at in range(8))}{more}",
    ]


def test_checkpoints_come_before_entries_with_their_types_and_parts():
    request = {**NOTHING, "sizes": [
        size(3, "entry", entry_type="assistant", draft_bytes=1500, checkpoint_bytes=20), size(1), size(2, "entry")]}
    assert list(memory_parts(request)) == [
        "checkpoints: 1,000 bytes (1 token 1,000)",
        "entries: 5,000 bytes (assistant 3 tokens 3,000 with 1,500 draft, 20 checkpoint, 2 tokens 2,000)",
    ]


@pytest.mark.parametrize(("draft", "text"), [
    ({"rows": 0}, "draft memory: empty"),
    ({"rows": 1, "pos_min": 4, "pos_max": 4, "state_pos": -1, "bytes": 2048},
     "draft memory: 1 row, positions 4..4, 2,048 bytes"),
    ({"rows": 2, "pos_min": 0, "pos_max": 1, "state_pos": 0, "bytes": 7},
     "draft memory: 2 rows, positions 0..1, state at 0, 7 bytes"),
])  # fmt: skip
def test_the_memory_of_the_draft_model(draft, text):
    assert list(memory_parts({**NOTHING, "draft_memory": draft})) == [text]


def test_micro_batches_of_both_models_are_counted_with_their_repetitions():
    request = {**NOTHING, "uncounted": 1234, "micro_batches": [
        batch("draft", (0, 9, 1)), batch("target", (0, 0, 9), (1, 4, 2)), batch("target", (0, 9, 1), repeats=2)]}
    assert list(memory_parts(request)) == [
        "1,234 more bytes that the server does not count",
        "3 micro-batches: slot 0: 0..8 + slot 1: 4..5, 2 from slot 0: 9 on",
        "1 micro-batch of the draft model: slot 0: 9",
    ]
    assert list(memory_parts(NOTHING)) == []
