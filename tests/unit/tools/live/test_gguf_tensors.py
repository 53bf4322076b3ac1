"""Tensors of the tiny models: their shapes, and the scale of their numbers."""

from __future__ import annotations

import pytest

from cachesim.tools.live.llama_server.gguf_tensors import EMBD, FF, feed_forward


@pytest.mark.parametrize("damping", [1.0, 0.5])
def test_only_the_last_tensor_of_a_feed_forward_is_damped(damping: float) -> None:
    assert [tuple(tensor)[:3] for tensor in feed_forward(damping)] == [
        ("ffn_gate.weight", (EMBD, FF), 0.15), ("ffn_up.weight", (EMBD, FF), 0.125),
        ("ffn_down.weight", (FF, EMBD), 0.1 * damping),
    ]  # fmt: skip
