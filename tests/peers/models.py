"""Arguments of tiny mlx-lm models for the layers of a scenario's model."""

from __future__ import annotations

from cachesim.base.errors import BadInput
from tests.peers.real_server import MODELS

FALCON = {
    "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "mamba_d_conv": 4, "mamba_d_head": 32, "mamba_d_ssm": 64, "mamba_d_state": 32, "mamba_n_heads": 2,
    "max_position_embeddings": 4096,
}  # fmt: skip


def arguments(spec):
    """Return module and arguments of the model with these layers. Raise BadInput without such a model."""
    kinds = "".join("W" if layer.window else layer.kind for layer in spec.layers)
    n, first = len(kinds), kinds.find("A")
    if set(kinds) == {"A"}:
        return _like("llama", num_hidden_layers=n)
    if set(kinds) == {"S"}:
        return _like("mamba2", num_hidden_layers=n)
    if set(kinds) == {"H"}:
        return "falcon_h1", {**FALCON, "num_hidden_layers": n}
    if set(kinds) == {"C", "A"}:
        return _like("lfm2", num_hidden_layers=n, full_attn_idxs=[i for i, kind in enumerate(kinds) if kind == "A"])
    if kinds == kinds[0] * first + "A" and kinds[0] == "G":
        return _like("qwen3_next", num_hidden_layers=n, full_attention_interval=n, mlp_only_layers=list(range(n)))
    if kinds == kinds[0] * first + "A" and kinds[0] == "W":
        return _like("gemma3", num_hidden_layers=n, sliding_window=spec.layers[0].window, sliding_window_pattern=n)
    raise BadInput(f"no tiny model of mlx-lm has the layers '{spec.notation}'")


def _like(name, **changed):
    module, _, args = MODELS[name]
    return module, {**args, **changed}
