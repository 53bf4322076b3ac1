"""Interface of the server: options, models, and the values that a search draws."""

from __future__ import annotations

from blockpool.flags import FLAGS
from cachesim.engines.capabilities import MOST_DRAWN_BATCHES, DrawnServer, Field, Manual
from cachesim.model.hash_mixing import Rng


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: few, small blocks."""
    block = rng.one((16, 16, 8, 4, 4, 2))
    most = min(400, MOST_DRAWN_BATCHES * block)
    room = rng.one((2, 2, 3, 8))
    blocks = 3 + room * (-(-(most + 80) // block))
    step = rng.one((2048, 2048, 64, 4 * block, block))
    server = {
        "block_size": block, "num_gpu_blocks": blocks, "max_num_batched_tokens": step,
        "max_num_seqs": rng.one((128, 128, 2, 1)), "prefix_cache_retention_interval": rng.one((0, 0, -1, 2 * block)),
        "use_eagle": rng.chance(10), "enable_prefix_caching": True,
    }  # fmt: skip
    return DrawnServer("blockpool", model, server, (1, block - 1 or 1, block, block + 1, 2 * block), most)


MANUAL = Manual(
    flags=FLAGS,
    models=(),
    drawn=("A", "AA", "GA", "GGGA", "CA", "H", "S"),
    draw=draw,
    slots=False,
    takes=frozenset({"cache_prompt", "cancel_at", "eog"}),
    fields=(Field("cache_salt", "", "blocks are shared only with requests of the same salt", ("x", "y")),),
    plenty={"num_gpu_blocks": 2048},
)  # fmt: skip
