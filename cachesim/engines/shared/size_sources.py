"""Public places where the sizes of named models were compared, besides the config.json of their repository.

A configuration class of huggingface/transformers counts if its documented checkpoint is the model.
"""

from __future__ import annotations

from typing import Mapping

_SLIME = "THUDM/slime scripts/models/{}.sh"
_CLASS = "huggingface/transformers src/transformers/models/{0}/configuration_{0}.py"
_LMCACHE = "LMCache/LMCache examples/kv_cache_calculator/modelconfig.json"
_GEMMA = "huggingface/transformers src/transformers/models/{0}/convert_{0}_weights.py"

CHECKED: Mapping[str, str] = {
    "qwen3-next": _SLIME.format("qwen3-next-80B-A3B"),
    "qwen3.5": _SLIME.format("qwen3.5-9B"),
    "qwen3.5-0.8b": _SLIME.format("qwen3.5-0.8B"),
    "qwen3.5-4b": _SLIME.format("qwen3.5-4B"),
    "qwen3.5-27b": _SLIME.format("qwen3.5-27B"),
    "qwen3.5-35b-a3b": _SLIME.format("qwen3.5-35B-A3B"),
    "qwen3.6-27b": "LMCache/LMCache#5079 (blocks of 784 in vLLM's log)",
    "qwen3.8-27b": "lablup/mlxcel#1163 (65,536 bytes of a token); LMCache/LMCache#5079 (blocks of 784 in vLLM's log)",
    "gpt-oss": _CLASS.format("gpt_oss"),
    "llama-3": _SLIME.format("llama3.1-8B-Instruct"),
    "llama-3.1-70b": _LMCACHE,
    "llama-3.1-405b": _LMCACHE,
    "llama-3.2-1b": _LMCACHE,
    "llama-3.2-3b": _SLIME.format("llama3.2-3B-Instruct"),
    "qwen3": _SLIME.format("qwen3-8B"),
    "qwen3-0.6b": _SLIME.format("qwen3-0.6B"),
    "qwen3-1.7b": _SLIME.format("qwen3-1.7B"),
    "qwen3-4b": _SLIME.format("qwen3-4B"),
    "qwen3-14b": _SLIME.format("qwen3-14B"),
    "qwen3-32b": _SLIME.format("qwen3-32B"),
    "qwen3-30b-a3b": _SLIME.format("qwen3-30B-A3B"),
    "qwen3-235b-a22b": _SLIME.format("qwen3-235B-A22B"),
    "qwen3-4b-2507": _SLIME.format("qwen3-4B-Instruct-2507"),
    "qwen3-30b-a3b-2507": _LMCACHE,
    "qwen3-235b-a22b-2507": _LMCACHE,
    "qwen2.5": _SLIME.format("qwen2.5-7B"),
    "qwen2.5-7b-instruct": _LMCACHE,
    "glm-4.5": _SLIME.format("glm4.5-355B-A32B"),
    "minimax-m2.1": _SLIME.format("minimax-m2"),
    "deepseek-v3": _SLIME.format("deepseek-v3"),
    "deepseek-r1": _LMCACHE,
    "kimi-k2-instruct": _SLIME.format("kimi-k2"),
    "gemma-3": _GEMMA.format("gemma3"),
    "gemma-3-270m": _GEMMA.format("gemma3"),
    "gemma-3-4b": _GEMMA.format("gemma3"),
    "gemma-3-12b": _GEMMA.format("gemma3"),
    "gemma-3-27b": _GEMMA.format("gemma3"),
    "gemma-4-26b-a4b": _GEMMA.format("gemma4"),
    "gemma-4-31b": _GEMMA.format("gemma4"),
    "deepseek-v3.2": _CLASS.format("deepseek_v32"),
    "deepseek-v4": f"{_CLASS.format('deepseek_v4')}; vllm-project/vllm#42948 (5 groups in a server)",
    "glm-5": _CLASS.format("glm_moe_dsa"),
    "glm-5.2": _SLIME.format("glm5.2-744B-A40B"),
    "hunyuan-v4": _CLASS.format("hy_v4"),
    "minimax-m3": _CLASS.format("minimax_m3_vl"),
}
"""Name in ``known_sizes`` -> where its numbers were found again. Others are said to be unverified."""
