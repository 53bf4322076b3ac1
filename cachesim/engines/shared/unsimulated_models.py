"""Real models whose recurrent layers are simulated, but whose sizes are not known: recognised by their architecture.

Source: llama.cpp src/llama-hparams.cpp n_embd_r, n_embd_s (b11549).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.known_models import plain

UNSIZED: Mapping[str, str] = {
    **dict.fromkeys(("kimi-linear", "kimi-k3"), "Kimi's delta attention"),
    **dict.fromkeys(("minimax-01", "bailingmoe3"), "linear attention"),
    **dict.fromkeys(("rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), "RWKV"),
    **dict.fromkeys(("mamba", "jamba", "plamo2"), "Mamba-1"),
}
"""Architecture -> its recurrent layers."""

_PLAIN = {plain(name): of for name, of in UNSIZED.items()}


def refuse_unsized(name: str, file: str) -> None:
    """Raise BadInput for the architecture of a model whose states have unknown sizes."""
    if of := _PLAIN.get(plain(name)):
        raise BadInput(f"model {quoted(name)}: the size of its states ({of}) is not known", file=file)
