"""Real models whose memory is not simulated: recognised by name, by architecture, or by the keys of a file.

Source: llama.cpp src/llama-model.cpp create_memory, conversion/*.py (b11549).
"""

from __future__ import annotations

from typing import Any, Collection, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.known_models import plain

_DSV4 = "DeepSeek V4's memory (windows, compressed rows, compressor states; llama_kv_cache_dsv4)"
_DSA = "memory with a sparse index (K/V rows and index keys; llama_kv_cache_dsa)"
_DSA_WINDOWS = "memory with a sparse index beside windows (llama_kv_cache_dsa_iswa)"
_MSA = "memory with a sparse index by blocks (llama_kv_cache_msa)"
_HYBRID = "hybrid memory with a sparse index (llama_memory_hybrid_idx)"
_KDA = "Kimi's delta attention"
_RWKV = "RWKV's recurrent state"

UNSIMULATED: Mapping[str, str] = {
    "deepseek4": _DSV4, "deepseek_v4": _DSV4, "deepseek32": _DSA, "deepseek_v32": _DSA, "deepseek-v3.2": _DSA,
    "glm-dsa": _DSA, "glm_moe_dsa": _DSA, "glm-5": _DSA, "hy_v4": _DSA, "hunyuan-v4": _DSA, "dots3note": _DSA_WINDOWS,
    "minimax-m3": _MSA, "glm5-next": _HYBRID, "qwen4exp": _HYBRID, "kimi-linear": _KDA, "kimi-k3": _KDA,
    "minimax-01": "MiniMax-01's linear attention", "bailingmoe3": "Bailing's linear attention",
    "rwkv6": _RWKV, "rwkv6qwen2": _RWKV, "rwkv7": _RWKV, "arwkv7": _RWKV, "mamba": "Mamba-1's recurrent state",
    "jamba": "Mamba-1's recurrent state", "plamo2": "Mamba-1's recurrent state",
}
"""Name or architecture -> its memory."""

CLASSES: Mapping[str, str] = {
    "llama_kv_cache_dsv4": _DSV4, "llama_kv_cache_dsa": _DSA, "llama_kv_cache_dsa_iswa": _DSA_WINDOWS,
    "llama_kv_cache_msa": _MSA, "llama_memory_hybrid_idx": _HYBRID,
}
"""Class of memory, as a server's log names it, -> the memory."""

KEYS: Mapping[str, str] = {
    "attention.indexer.head_count": _DSA, "index_topk": _DSA, "index_n_heads": _DSA, "compress_ratios": _DSV4,
}
"""Key of a file -> the memory that it belongs to."""

LEAST = 5                 # shorter names are compared as a whole
_PLAIN = {plain(name): why for name, why in UNSIMULATED.items()}


def unsimulated(name: str) -> str:
    """Return the memory of a model whose memory is not simulated; "" for any other name. An organisation may precede
    the name, and a variant may follow it (``deepseek-ai/DeepSeek-V4-Flash``)."""
    words = plain(name.rpartition("/")[2])
    begins = [one for one in _PLAIN if len(one) > LEAST and words.startswith(one)]
    return _PLAIN.get(words) or (_PLAIN[max(begins, key=len)] if begins else "")


def refuse_unsimulated(name: str, keys: Mapping[str, Any] | Collection[str], file: str = "") -> None:
    """Raise BadInput for the architecture, or for a key, of a model whose memory is not simulated."""
    why = _PLAIN.get(plain(name)) or next((KEYS[key] for key in KEYS if key in keys), "")
    if why:
        raise not_simulated(name or "of this file", why, file)


def not_simulated(name: str, why: str, file: str = "") -> BadInput:
    """Return the error for a model whose memory is not simulated."""
    return BadInput(f"model {quoted(name)} is not simulated: it has {why}", file=file)
