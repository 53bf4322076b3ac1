"""Capabilities of mlx-lm's server: its options, its models, and the worlds that a search draws."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.capabilities import MOST_DRAWN_BATCHES, Capacity, ChatDrawing, DrawnServer, Manual
from cachesim.engines.mlx_lm.flags import FLAGS, IGNORED
from cachesim.engines.shared import advice
from cachesim.engines.shared.known_models import OLDER
from cachesim.model.hash_mixing import Rng

MOST_ENTRIES = 100         # entries of the prompt cache that are tried
ENTRIES = Capacity("prompt_cache_size", lambda now, load: max(int(now["prompt_cache_size"]), MOST_ENTRIES))
TRIES = advice.tries_of(
    FLAGS, "draft_model", "prompt_concurrency", "decode_concurrency",
    lambda now, load: advice.halved_values("prefill_step_size", now, load),
    advice.ample(ENTRIES), "prompt_cache_bytes",
)


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model, with short steps, few entries and small batches."""
    step = rng.one((2048, 2048, 64, 8, 7, 4, 3, 2, 2, 1))
    server: dict[str, Any] = {"prefill_step_size": step, "template": rng.one(("plain", "reasoning", "terse", "terse"))}
    server["thinking"] = rng.chance(40)
    if rng.chance(40):
        server["prompt_cache_size"] = rng.one((1, 2, 4))
    if rng.chance(20):
        server["prompt_cache_bytes"] = rng.one((20_000, 200_000))
    if rng.chance(30):
        server["prompt_concurrency"], server["decode_concurrency"] = rng.one((1, 2)), rng.one((1, 2, 4))
    if rng.chance(40 if set(model) == {"A"} else 4):     # other models are refused since #1109
        server["draft_model"], server["num_draft_tokens"] = "A", rng.one((1, 2, 3))
    if rng.chance(20):
        server["snapshot_interval"] = rng.one((8, 32))
    return DrawnServer(
        "mlx_lm", model, server=server, edges=(1, 2, 3, 8, 11, step), most=min(400, MOST_DRAWN_BATCHES * step)
    )


def draw_fields(rng: Rng, server: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the fields of a request besides prompt and answer: a seed (the request is served alone) and the number of
    accepted draft tokens."""
    fields: dict[str, Any] = {}
    if rng.chance(6):
        fields["seed"] = True
    if "draft_model" in server:
        fields["draft_else"] = rng.below(int(server["num_draft_tokens"]) + 1)
    return fields


def draw_system(rng: Rng, server: Mapping[str, Any]) -> int:
    """Draw the length of a system text [tokens]. With its headers it often exceeds a multiple of the step by a single
    token, which the last tick then feeds alone."""
    step = int(server["prefill_step_size"])
    if step <= 8 and rng.chance(50):
        header = 3 if server["template"] == "terse" else 8
        return 1 + step * (header // step + rng.between(1, 5)) - header
    return rng.between(1, rng.one((4, 12, 40)))


WITHOUT_WINDOW = OLDER["gemma-2"]._replace(
    layers="AAAA", real="all its layers are attention here: this server does not model its window",
    source="ml-explore/mlx-lm mlx_lm/models/gemma2.py",
)

# mlx-lm 0.32.2: mlx_lm/models/{deepseek_v32,glm_moe_dsa,minimax_m3_vl,deepseek_v41}.py make_cache.
_INDEX = "the second KVCache of its layers (CacheList), which holds index keys, has no rules here"
_ABSENT = "mlx-lm 0.32.2 has no mlx_lm/models/{}.py"
LACKS: Mapping[str, str] = {
    "deepseek-v3.2": _INDEX, "glm-5": _INDEX, "glm-5.2": _INDEX, "minimax-m3": _INDEX,
    "deepseek-v4": f"{_ABSENT.format('deepseek_v4')}; the LayerCache of its deepseek_v41.py has no rules here",
    "deepseek-v4-pro": f"{_ABSENT.format('deepseek_v4')}; the LayerCache of its deepseek_v41.py has no rules here",
    "glm-5-next": _ABSENT.format("glm5_next"), "hunyuan-v4": _ABSENT.format("hy_v4"),
    "dots-3": _ABSENT.format("dots3_note"), "qwen3.8-flash-next": _ABSENT.format("qwen4_exp"),
}
"""Real model -> what is missing to simulate it."""

MANUAL = Manual(
    flags=FLAGS, silent=IGNORED, refused=frozenset(), known={**OLDER, "gemma-2": WITHOUT_WINDOW}, lacks=LACKS,
    models=("llama", "gemma3", "mamba2", "lfm2", "qwen3_next", "falcon_h1"),
    with_text=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp"),
    slots=False, chats=ChatDrawing(draw_system, lambda server: server["template"] != "plain"),
    takes=frozenset({"messages", "seed", "cancel_at", "drafts", "draft_else"}),
    headline=("prompt_cache_size", "prefill_step_size"),
    unlimited={"prompt_cache_size": 1_000_000}, plenty={"prompt_cache_size": 10},
    drawn=("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "CA", "H", "W8 G"),
    draw=draw, draw_fields=draw_fields, tries=TRIES, capacities=(ENTRIES,),
)
