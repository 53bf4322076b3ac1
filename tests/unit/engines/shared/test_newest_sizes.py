"""Layers of the released models with the newest memories of llama.cpp, as their configurations state them."""

from itertools import groupby

import pytest

from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.newest_sizes import CONFIGURATIONS, published_models
from cachesim.engines.shared.size_formulas import LayerSize

LATENT = LayerSize("A", 576, kv_heads=1)
CHOSEN = LATENT._replace(kind="I", numbers="2048", index_key=128)
WINDOW = LayerSize("W", 512, kv_heads=1)
POOLS = WINDOW._replace(kind="D", numbers="4.128.512", index_key=128, ratio=4)
LONG_POOLS = WINDOW._replace(kind="D", numbers="128.128", ratio=128)
KIMI = LayerSize("G", conv=3 * 3 * 64 * 128, matrix=64 * 128 * 128, inputs=3)
GLM_ROWS = LayerSize("P", 512, kv_heads=1, numbers="2048", index_key=3 * 128)
MINIMAX = LayerSize("A", 512, 512, kv_heads=4)
BLOCKS = MINIMAX._replace(kind="B", numbers="128", index_key=128, index_value=128)
DELTA = LayerSize("G", conv=3 * (2 * 2048 + 6144), matrix=48 * 128 * 128, inputs=3)
QWEN_ROWS = LayerSize("P", 512, 512, kv_heads=2, numbers="2048", index_key=2 * 128)

LAYERS = {
    "deepseek-v3.2": [*[CHOSEN] * 61],
    "deepseek-v4": [WINDOW, WINDOW, *[POOLS, LONG_POOLS] * 20, POOLS],
    "deepseek-v4-pro": [LONG_POOLS, *[LONG_POOLS, POOLS._replace(numbers="4.128.1024")] * 30],
    "glm-5": [CHOSEN] * 78,
    "glm-5.1": [CHOSEN] * 78,
    "glm-5.2": [CHOSEN, CHOSEN, *[CHOSEN, LATENT, LATENT, LATENT] * 19],
    "glm-5-next": [*[KIMI, KIMI, KIMI, GLM_ROWS] * 11, KIMI],
    "hunyuan-v4": [CHOSEN, *[CHOSEN, LATENT, LATENT, LATENT] * 8, CHOSEN],
    "dots-3": [CHOSEN, CHOSEN, *[LayerSize("W", 1088, kv_heads=1)] * 3,
               *[CHOSEN, *[LayerSize("W", 1088, kv_heads=1)] * 3] * 10, CHOSEN],
    "minimax-m3": [*[MINIMAX] * 3, *[BLOCKS] * 57],
    "qwen3.8-flash-next": [DELTA, DELTA._replace(history=3 * 3 * 4 * 2560), DELTA, QWEN_ROWS,
                           *[DELTA, DELTA, DELTA, QWEN_ROWS] * 11],
}  # fmt: skip
REST = {
    "deepseek-v3.2": RealModel((), "deepseek-ai/DeepSeek-V3.2", 0, 163840, False, (LATENT,), 576, arch="deepseek_v32"),
    "deepseek-v4": RealModel((), "deepseek-ai/DeepSeek-V4-Flash", 128, 1048576, False, (WINDOW._replace(value=512),),
                             512, arch="deepseek_v4"),
    "deepseek-v4-pro": RealModel((), "deepseek-ai/DeepSeek-V4-Pro", 128, 1048576, False, (WINDOW._replace(value=512),),
                                 512, arch="deepseek_v4"),
    "glm-5": RealModel((), "zai-org/GLM-5", 0, 202752, False, (LATENT,), 576, arch="glm_moe_dsa"),
    "glm-5.1": RealModel((), "zai-org/GLM-5.1", 0, 202752, False, (LATENT,), 576, arch="glm_moe_dsa"),
    "glm-5.2": RealModel((), "zai-org/GLM-5.2", 0, 1048576, False, (LATENT,), 576, arch="glm_moe_dsa"),
    "glm-5-next": RealModel((), "zai-org/GLM-5.3-Flash", 0, 1048576, False, (GLM_ROWS,), 512, "float32",
                            arch="glm5_next"),
    "hunyuan-v4": RealModel((), "tencent/Hy4-preview", 0, 262144, False, (), 576, arch="hy_v4"),
    "dots-3": RealModel((), "rednote-hilab/dots3.note.omni", 513, 524288, False, (LATENT,), 576,
                        arch="dots3_note_omni"),
    "minimax-m3": RealModel((), "MiniMaxAI/MiniMax-M3", 0, 524288, False, (), 128, arch="minimax_m3_vl_text"),
    "qwen3.8-flash-next": RealModel((), "Qwen/Qwen3.8-Flash-Next", 0, 262144, True, (QWEN_ROWS,), 256, "float32",
                                    arch="qwen4_exp_text"),
}  # fmt: skip
"""Name -> all but the layers, with the repository as the source."""


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_released_model_has_the_layers_of_its_configuration(name):
    found = published_models()[name]
    runs = [(layer, len([*run])) for layer, run in groupby(found.layers)]
    assert runs == [(layer, len([*run])) for layer, run in groupby(LAYERS[name])]
    assert found._replace(layers=(), source=found.source.removeprefix("config.json of ")) == REST[name]
