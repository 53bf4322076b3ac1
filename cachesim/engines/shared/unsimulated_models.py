"""Real models whose memory is not simulated: recognised by name, by architecture, or by the keys of a file.

Source: llama.cpp src/llama-model.cpp create_memory, conversion/*.py (b11549).
"""

from __future__ import annotations

from typing import Any, Collection, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.known_models import plain

_DSV4 = "windows, compressed rows and compressor states (llama_kv_cache_dsv4)"
_DSA = "K/V rows with a sparse index (llama_kv_cache_dsa)"
_DSA_WINDOWS = "windows, and K/V rows with a sparse index (llama_kv_cache_dsa_iswa)"
_MSA = "K/V rows with a sparse index of blocks (llama_kv_cache_msa)"
_HYBRID = "recurrent states, and K/V rows with a sparse index (llama_memory_hybrid_idx)"

UNSIMULATED: Mapping[str, str] = {
    "deepseek4": _DSV4, "deepseek_v4": _DSV4, "deepseek32": _DSA, "deepseek_v32": _DSA, "deepseek-v3.2": _DSA,
    "glm-dsa": _DSA, "glm_moe_dsa": _DSA, "glm-5": _DSA, "hy_v4": _DSA, "hunyuan-v4": _DSA, "dots3note": _DSA_WINDOWS,
    "minimax-m3": _MSA, "glm5-next": _HYBRID, "qwen4exp": _HYBRID,
}
"""Name or architecture -> its memory."""

UNSIZED: Mapping[str, str] = {
    **dict.fromkeys(("kimi-linear", "kimi-k3"), "Kimi's delta attention"),
    **dict.fromkeys(("minimax-01", "bailingmoe3"), "linear attention"),
    **dict.fromkeys(("rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), "RWKV"),
    **dict.fromkeys(("mamba", "jamba", "plamo2"), "Mamba-1"),
}
"""Architecture -> its recurrent layers, which are simulated, but whose sizes are not known."""

CLASSES: Mapping[str, str] = {
    "dsv4": _DSV4, "dsa": _DSA, "dsa_iswa": _DSA_WINDOWS, "msa": _MSA, "hybrid_idx": _HYBRID,
}
"""Class of memory, as the lines of a log name it (``llama_kv_cache_dsa``), -> the memory."""

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


def unsimulated_in(facts: Mapping[str, Any]) -> str:
    """Return the reason why the model of a log is not simulated, "" if nothing in the log says so. ``facts``: values
    that the log prints about the server."""
    arch, of = str(facts.get("arch", "")), next((name for name in CLASSES if name in facts), "")
    why = _PLAIN.get(plain(arch)) or CLASSES.get(of, "")
    return not_simulated(arch or of, why).cause if why else ""


def refuse_unsimulated(name: str, keys: Mapping[str, Any] | Collection[str], file: str = "") -> None:
    """Raise BadInput for the architecture, or for a key, of a model whose memory is not simulated."""
    why = _PLAIN.get(plain(name)) or next((KEYS[key] for key in KEYS if key in keys), "")
    if why:
        raise not_simulated(name or "of this file", why, file)
    if of := {plain(one): what for one, what in UNSIZED.items()}.get(plain(name)):
        raise BadInput(f"model {quoted(name)}: the size of its states ({of}) is not known", file=file)


def not_simulated(name: str, why: str, file: str = "") -> BadInput:
    """Return the error for a model whose memory is not simulated."""
    return BadInput(f"model {quoted(name)} is not simulated: its memory has {why}", file=file)
