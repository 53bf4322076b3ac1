"""Interface of the server: options, models, request fields, and the values that a search draws."""

from __future__ import annotations

from typing import Any

from cachesim.engines.capabilities import MOST_DRAWN_BATCHES, DrawnServer, Field, Manual
from cachesim.engines.vllm.flags import FLAGS
from cachesim.model.hash_mixing import Rng


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: few, small blocks."""
    block = rng.one((16, 16, 8, 4, 4, 2))
    most = min(400, MOST_DRAWN_BATCHES * block)
    blocks = 3 + rng.one((2, 2, 3, 8)) * (-(-(most + 80) // block))
    server: dict[str, Any] = {
        "block_size": block, "num_gpu_blocks": blocks,
        "max_num_batched_tokens": rng.one((2048, 2048, 64, 4 * block, block)), "max_num_seqs": rng.one((128, 128, 2, 1)),
    }  # fmt: skip
    return DrawnServer("vllm", model, server, (1, block - 1 or 1, block, block + 1, 2 * block), most)


MANUAL = Manual(
    flags=FLAGS,
    models=(),
    drawn=("A", "AA", "W8 A", "W8", "K8 A", "GA", "GGGA", "CA", "H", "S"),
    draw=draw,
    slots=False,
    refused=frozenset(),
    takes=frozenset({"cache_prompt", "cancel_at", "eog", "drafts", "draft_else"}),
    fields=(
        Field("cache_salt", "", "blocks are shared only with requests of the same salt", ("x", "y")),
        Field("lora", "", "adapter of the request; blocks are shared only under the same adapter", ("a", "b")),
        Field("priority", 0, "the smallest is served first, with the priority policy", (0, 1)),
    ),
    plenty={"num_gpu_blocks": 2048},
    headline=("block_size", "num_gpu_blocks"),
)  # fmt: skip
