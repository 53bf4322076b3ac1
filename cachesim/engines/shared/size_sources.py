"""Public places where the sizes of named models were compared, besides the config.json of their repository.

A configuration class of huggingface/transformers counts if its documented checkpoint is the model.
"""

from __future__ import annotations

from typing import Mapping

_SLIME = "THUDM/slime scripts/models/{}.sh"
_CLASS = "huggingface/transformers src/transformers/models/{0}/configuration_{0}.py"
_LMCACHE = "LMCache/LMCache examples/kv_cache_calculator/modelconfig.json"
_AIC = "ai-dynamo/aiconfigurator aic-core/src/aiconfigurator_core/model_configs/{}_config.json"
_GEMMA = "huggingface/transformers src/transformers/models/{0}/convert_{0}_weights.py"

CHECKED: Mapping[str, str] = {
    "qwen3-next": _SLIME.format("qwen3-next-80B-A3B"),
    "qwen3.5": _SLIME.format("qwen3.5-9B"),
    "qwen3.5-0.8b": _SLIME.format("qwen3.5-0.8B"),
    "qwen3.5-4b": _SLIME.format("qwen3.5-4B"),
    "qwen3.5-27b": _SLIME.format("qwen3.5-27B"),
    "qwen3.5-35b-a3b": _SLIME.format("qwen3.5-35B-A3B"),
    "qwen3.5-122b-a10b": _AIC.format("Qwen--Qwen3.5-122B-A10B"),
    "qwen3.5-397b-a17b": _AIC.format("Qwen--Qwen3.5-397B-A17B"),
    "qwen3.6-27b": "LMCache/LMCache#5079 (blocks of 784 in vLLM's log)",
    "qwen3.6-35b-a3b": _AIC.format("nvidia--Qwen3.6-35B-A3B-NVFP4"),
    "qwen3.8-27b": "lablup/mlxcel#1163 (65,536 bytes of a token); LMCache/LMCache#5079 (blocks of 784 in vLLM's log)",
    "gpt-oss": _CLASS.format("gpt_oss"),
    "gpt-oss-20b": _AIC.format("openai--gpt-oss-20b"),
    "llama-3": _SLIME.format("llama3.1-8B-Instruct"),
    "llama-3.1-70b": _LMCACHE,
    "llama-3.1-405b": _LMCACHE,
    "llama-3.2-1b": _LMCACHE,
    "llama-3.2-3b": _SLIME.format("llama3.2-3B-Instruct"),
    "mixtral-8x7b": _AIC.format("mistralai--Mixtral-8x7B-v0.1"),
    "mixtral-8x22b": _AIC.format("mistralai--Mixtral-8x22B-v0.1"),
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
    "qwen3-coder-480b-a35b": _LMCACHE,
    "qwen3-vl-2b": _AIC.format("Qwen--Qwen3-VL-2B-Instruct"),
    "qwen3-vl-4b": _AIC.format("Qwen--Qwen3-VL-4B-Instruct"),
    "qwen3-vl-8b": _AIC.format("Qwen--Qwen3-VL-8B-Instruct"),
    "qwen3-vl-32b": _AIC.format("Qwen--Qwen3-VL-32B-Instruct"),
    "qwen3-vl-30b-a3b": _AIC.format("Qwen--Qwen3-VL-30B-A3B-Instruct"),
    "qwen3-vl-235b-a22b": _AIC.format("Qwen--Qwen3-VL-235B-A22B-Instruct"),
    "qwen2.5": _SLIME.format("qwen2.5-7B"),
    "qwen2.5-7b-instruct": _LMCACHE,
    "glm-4.5": _SLIME.format("glm4.5-355B-A32B"),
    "glm-4.6": _LMCACHE,
    "minimax-m2.1": _SLIME.format("minimax-m2"),
    "minimax-m2.5": _AIC.format("MiniMaxAI--MiniMax-M2.5"),
    "deepseek-v3": _SLIME.format("deepseek-v3"),
    "deepseek-r1": _LMCACHE,
    "deepseek-v3.1": _AIC.format("nvidia--DeepSeek-V3.1-NVFP4"),
    "kimi-k2-instruct": _SLIME.format("kimi-k2"),
    "kimi-k2.5": _AIC.format("moonshotai--Kimi-K2.5"),
    "kimi-k2.6": _AIC.format("nvidia--Kimi-K2.6-NVFP4"),
    "kimi-k2.7-code": _AIC.format("nvidia--Kimi-K2.7-Code-NVFP4"),
    "gemma-3": _GEMMA.format("gemma3"),
    "gemma-3-270m": _GEMMA.format("gemma3"),
    "gemma-3-4b": _GEMMA.format("gemma3"),
    "gemma-3-12b": _GEMMA.format("gemma3"),
    "gemma-3-27b": _GEMMA.format("gemma3"),
    "gemma-4-26b-a4b": _GEMMA.format("gemma4"),
    "gemma-4-31b": _GEMMA.format("gemma4"),
    "nemotron-3-nano": _AIC.format("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    "nemotron-3.5-lightning": _AIC.format("nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"),
    "nemotron-3-super": _AIC.format("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8"),
    "nemotron-3-ultra": _AIC.format("nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"),
    "mimo-v2-flash": _AIC.format("XiaomiMiMo--MiMo-V2-Flash"),
    "step-3.5-flash": "sgl-project/sglang-jax#1367",
    "step-3.7-flash": _CLASS.format("step3p7"),
    "deepseek-v3.2": _CLASS.format("deepseek_v32"),
    "deepseek-v4": f"{_CLASS.format('deepseek_v4')}; vllm-project/vllm#42948 (5 groups in a server)",
    "deepseek-v4-pro": _AIC.format("deepseek-ai--DeepSeek-V4-Pro"),
    "glm-5": _CLASS.format("glm_moe_dsa"),
    "glm-5.1": _AIC.format("zai-org--GLM-5.1"),
    "glm-5.2": _SLIME.format("glm5.2-744B-A40B"),
    "hunyuan-v4": _CLASS.format("hy_v4"),
    "dots-3": _CLASS.format("dots3_note"),
    "minimax-m3": _CLASS.format("minimax_m3_vl"),
}
"""Name in ``known_sizes`` -> where its numbers were found again. Others are said to be unverified."""
