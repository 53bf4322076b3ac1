"""Sizes of released models with the newest memories of llama.cpp: the numbers of their config.json that memory needs.

Source: huggingface/transformers src/transformers/models/{deepseek_v4,hy_v4,minimax_m3_vl,qwen4_exp,dots3_note_omni}/
configuration_*.py; ggml-org/llama.cpp src/models/{deepseek32,glm-dsa,glm5-next,dots3note}.cpp (b11549) and #24908,
#27752; config.json of the named repositories as public code quotes it.
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.shared.model_layers import RealModel, layers_of_config

LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128}
"""Latent rows with an index of 2048 rows, as in DeepSeek V3.2."""
_V4 = {"model_type": "deepseek_v4", "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
       "sliding_window": 128, "index_head_dim": 128, "max_position_embeddings": 1048576,
       "num_nextn_predict_layers": 1}  # fmt: skip
_GLM = {**LATENT, "model_type": "glm_moe_dsa", "num_hidden_layers": 78, "num_attention_heads": 64,
        "num_nextn_predict_layers": 1}  # fmt: skip

CONFIGURATIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "deepseek-v3.2": ("deepseek-ai/DeepSeek-V3.2", {
        **LATENT, "model_type": "deepseek_v32", "num_hidden_layers": 61, "num_attention_heads": 128,
        "max_position_embeddings": 163840, "num_nextn_predict_layers": 1}),
    "deepseek-v4": ("deepseek-ai/DeepSeek-V4-Flash", {
        **_V4, "num_hidden_layers": 43, "index_topk": 512, "compress_ratios": [0, 0, *(4, 128) * 20, 4, 0]}),
    "deepseek-v4-pro": ("deepseek-ai/DeepSeek-V4-Pro", {
        **_V4, "num_hidden_layers": 61, "index_topk": 1024, "num_attention_heads": 128,
        "compress_ratios": [128, 128, *(4, 128) * 29, 4, 0]}),
    "glm-5": ("zai-org/GLM-5", {**_GLM, "max_position_embeddings": 202752}),
    "glm-5.1": ("zai-org/GLM-5.1", {**_GLM, "max_position_embeddings": 202752}),
    "glm-5.2": ("zai-org/GLM-5.2", {**_GLM, "max_position_embeddings": 1048576, "indexer_types": [
        "full" if i < 3 or i % 4 == 2 else "shared" for i in range(78)]}),
    "glm-5-next": ("zai-org/GLM-5.3-Flash", {
        **LATENT, "model_type": "glm5_next", "qk_rope_head_dim": 0, "index_kpool": 4, "num_hidden_layers": 45,
        "num_attention_heads": 64, "max_position_embeddings": 1048576, "num_nextn_predict_layers": 1,
        "linear_attn_config": {"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4}}),
    "hunyuan-v4": ("tencent/Hy4-preview", {
        **LATENT, "model_type": "hy_v4", "num_hidden_layers": 34, "num_attention_heads": 32,
        "max_position_embeddings": 262144,
        "indexer_types": ["full" if i == 0 or i % 4 == 1 else "shared" for i in range(34)]}),
    "dots-3": ("rednote-hilab/dots3.note.omni", {
        **LATENT, "model_type": "dots3_note_omni", "num_hidden_layers": 46, "num_attention_heads": 128,
        "sliding_window_size": 513, "swa_kv_lora_rank": 1024, "swa_qk_rope_head_dim": 64,
        "max_position_embeddings": 524288, "num_nextn_predict_layers": 1}),
    "minimax-m3": ("MiniMaxAI/MiniMax-M3", {
        "model_type": "minimax_m3_vl_text", "num_hidden_layers": 60, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 524288, "sparse_attention_config": {
            "sparse_index_dim": 128, "sparse_topk_blocks": 16, "sparse_block_size": 128,
            "sparse_attention_freq": [0] * 3 + [1] * 57}}),
    "qwen3.8-flash-next": ("Qwen/Qwen3.8-Flash-Next", {
        "model_type": "qwen4_exp_text", "num_hidden_layers": 48, "hidden_size": 2560, "num_attention_heads": 24,
        "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "hc_count": 4,
        "ple_layer_ids": [2], "ple_conv_kernel_size": 4, "ngram_size": 3, "indexer_head_dim": 128,
        "indexer_budget": 2048, "indexer_compress_ratio": 4, "max_position_embeddings": 262144,
        "mtp_num_hidden_layers": 1, "rope_parameters": {"mrope_section": [11, 11, 10]},
        "mamba_ssm_dtype": "float32"}),
}  # fmt: skip
"""Name -> repository, and the numbers of its config.json."""


def published_models() -> dict[str, RealModel]:
    """Return the models by name."""
    return {name: layers_of_config(config, f"config.json of {repository}")
            for name, (repository, config) in CONFIGURATIONS.items()}  # fmt: skip
