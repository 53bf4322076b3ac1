"""Rules about images in older builds.

Source: llama.cpp tools/server/server-common.cpp (b10587, b10809, b11063 and b11312; read, not run).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.media_items import item_at
from cachesim.engines.llama_cpp.rules.media import TOKENS
from cachesim.engines.llama_cpp.source_files import llama_cpp
from cachesim.engines.rule import Decision, Role, rule


# [Gone in llama_cpp@b11549]
@rule("LC-MEDIA-CUT.BETWEEN", Role.FAIL,
      llama_cpp(TOKENS, "server_tokens::keep_first", "3f545be",
                note="reported in #24075; b11549 compares the cut with the start of the second image"))
def cut_between(tokens: Sequence[int], n_past: int) -> Decision:
    """Fail a request whose slot is to be cut inside an image, as LC-MEDIA-CUT, or between two images without a token
    between them. Not simulated: an image of two tokens, which this build would cut in its middle. Return the error
    text, "" = the slot is cut."""
    inside = item_at(tokens, n_past)
    before = item_at(tokens, n_past - 1) if inside and n_past else None
    fails = inside and (inside.number or (before and before.n_tokens > 1))
    return Decision("got exception: Chunk not found" if fails else "", {"n_past": n_past})
