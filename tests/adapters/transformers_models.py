"""Tiny models of transformers with reproducible random weights."""

from __future__ import annotations

import torch
import transformers

SIZES = {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "pad_token_id": 0,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
MAMBA_2 = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_chunk_size": 8,
           "mamba_n_groups": 1}  # fmt: skip
OWN = {
    "Llama": {},
    "Mistral": {"sliding_window": 16},
    "Bamba": {**MAMBA_2, "attn_layer_indices": [1]},
    "Mamba": {"state_size": 8, "conv_kernel": 4, "time_step_rank": 4},
    "RecurrentGemma": {"lru_width": 32, "attention_window_size": 64, "block_types": ["recurrent", "attention"],
                       "conv1d_width": 4},
}  # fmt: skip


def make(kind):
    """A model in double precision, whose logits do not depend on how a prompt is split by more than 1e-9."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **OWN[kind]})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():            # large enough for every token to affect the logits
            weight.copy_(torch.randn_like(weight) * 0.3)
    return model
