"""Folders of tiny random models that the real mlx_lm.server loads, with a tokenizer of short words. Needs MLX."""

from __future__ import annotations

import json
from itertools import pairwise

from cachesim.tools.conformance.http_check.openai_client import WORDS

VOCABULARY = 1_400
NEMOTRON = ("nemotron_h", "SAS", {
    "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 4096, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "attention_bias": False, "mamba_num_heads": 2, "mamba_head_dim": 32,
    "mamba_proj_bias": False, "ssm_state_size": 32, "conv_kernel": 4, "n_groups": 1, "mlp_bias": False,
    "layer_norm_epsilon": 1e-5, "use_bias": False, "use_conv_bias": True, "time_step_limit": (0.0, 100.0),
    "hybrid_override_pattern": ["M", "*", "M", "-"],
})  # fmt: skip
END = "<end>"                # generated too rarely to matter


def write_model(folder, name, seed=0):
    """Write a model of tests/peers with a tokenizer."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    from tests.peers import real_server

    words, size = write_tokenizer(folder)
    real_server.VOCAB = size
    real_server.MODELS["nemotron_h"] = NEMOTRON
    module, _, args = real_server.MODELS[name]
    model = real_server.build(name, seed)
    weights = dict(tree_flatten(model.parameters()))
    said = mx.array([[1.0] if token in words else [0.0] for token in range(size)])
    for key in ("lm_head.weight", "model.embed_tokens.weight", "backbone.embeddings.weight"):
        if key in weights:                     # the first existing key determines the output: words only
            weights[key] = weights[key] * said
            break
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    config = {"model_type": module, "vocab_size": size, "eos_token_id": size - 1, **args}
    (folder / "config.json").write_text(json.dumps(config))


def write_tokenizer(folder):
    """Write byte pairs that make every word with its leading space a single token; return the tokens of words, and
    the number of all tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator([f" {a} {b}" for a, b in pairwise(WORDS[:160])] * 3, trainer)
    tokenizer.add_special_tokens([END])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "add_bos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    words = {token for text, token in tokenizer.get_vocab().items() if text.startswith("\u0120") and len(text) > 2}
    return words, tokenizer.get_vocab_size()
