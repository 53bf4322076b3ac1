"""Which server does a conversation meet? Models and flags, the corners among them, and the lengths at which things
happen."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from cachesim.model.rng import Rng

MODELS: Mapping[str, tuple[str, ...]] = {
    "llama_cpp": ("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "SS", "CA", "HH", "G W8", "C W8"),
    "ik_llama": ("A", "W8 A", "GA", "GGGA", "GGA+M", "A+M"),
    "mlx_lm": ("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "CA", "H", "W8 G"),
}
"""Small models of every kind of memory: attention A, windows W, recurrent S, hybrids, hybrids with windows."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "A": ("A", "AA"), "W": ("W8 A", "W8 W8"), "R": ("S", "SS"), "H": ("GA", "GGGA", "CA", "H", "HH"),
    "HW": ("G W8", "C W8", "W8 G"), "M": ("GGA+M", "A+M"),
}
"""Classes by which a search can be narrowed."""


MANY = 48              # micro-batches of a prompt, at most: more of the same cost time and show nothing new


class World(NamedTuple):
    """A server. ``edges``: lengths in tokens around which prompts are drawn more often than elsewhere; ``most``: the
    longest prompt that it takes."""

    engine: str
    model: str
    server: Mapping[str, Any]
    edges: tuple[int, ...]
    most: int


def draw_world(rng: Rng, engine: str, models: tuple[str, ...] = ()) -> World:
    """A server of this engine; ``models`` narrows the choice."""
    known = [one for one in MODELS[engine] if one in models] or list(MODELS[engine])
    rings = [one for one in known if "W" in one]            # they have the most to lose, and the longest way to it
    model = rng.one(rings if rings and rng.chance(20) else known)
    return {"llama_cpp": _llama_cpp, "ik_llama": _ik_llama, "mlx_lm": _mlx_lm}[engine](rng, model)


def _sizes(rng: Rng) -> tuple[int, int]:
    """n_batch and n_ubatch: often small, so that few tokens make many of them."""
    ubatch = rng.one((512, 512, 64, 64, 16, 4, 2, 1))
    return max(ubatch, rng.one((512, 64, 64, 32, 8, 2))), ubatch


def _llama_cpp(rng: Rng, model: str) -> World:
    batch, ubatch = _sizes(rng)
    if "W" in model and ubatch < 16 and rng.chance(50):
        batch, ubatch = max(batch, 64), 16       # else no prompt would leave the ring of 256 cells
    server: dict[str, Any] = {"batch_size": batch, "ubatch_size": ubatch, "ctx_size": rng.one((512, 1024, 1024, 2048))}
    if rng.chance(40):
        server["parallel"] = rng.one((2, 2, 3))
        server["kv_unified"] = rng.chance(50)
        server["slot_prompt_similarity"] = rng.one((0.0, 0.1, 0.5))
        if server["kv_unified"]:            # several texts want the room of one: purges, halved batches, failed loads
            server["ctx_size"] = rng.one((256, 256, 512, server["ctx_size"]))
    if rng.chance(40):
        server["ctx_checkpoints"] = rng.one((0, 1, 2, 3))
    if rng.chance(60):
        server["checkpoint_min_step"] = rng.one((0, 0, 2, 8, 32, 8192))
    if rng.chance(40):
        server["cache_ram"] = rng.one((0, 0, 1, -1))
    if rng.chance(15):
        server["swa_full"] = True
    if rng.chance(10):
        server["cache_reuse"] = rng.one((1, 4, 16))
    if rng.chance(15):
        server["spec_type"], server["spec_draft_n_max"] = "ngram-simple", rng.one((1, 2, 4))
    edges: tuple[int, ...] = (1, 4, 5, 8, ubatch, batch, 64, 256, 512)
    if "W" in model:
        edges = (*edges, 130, 256, 264, 300, 400, 130, 264, 300)    # a ring has 256 cells: only then is something lost
    shares = 1 if server.get("kv_unified") else server.get("parallel", 1)
    room = server["ctx_size"] // shares - 16
    return World("llama_cpp", model, server, edges, min(room, MANY * ubatch))


def _ik_llama(rng: Rng, model: str) -> World:
    batch, ubatch = _sizes(rng)
    server: dict[str, Any] = {"batch_size": batch, "ubatch_size": ubatch, "ctx_size": rng.one((128, 512, 1024, 2048))}
    if rng.chance(30):
        server["parallel"] = 2
    if rng.chance(40):
        server["ctx_checkpoints"] = rng.one((0, 1, 2, 3))
    if rng.chance(60):
        server["ctx_checkpoints_interval"] = rng.one((0, 8, 16, 64, 512))
        server["ctx_checkpoints_tolerance"] = rng.one((0, 1, 5, 5))
    if rng.chance(40):
        server["cache_ram"] = rng.one((0, 0, 1))
    if rng.chance(30):
        server["cache_ram_similarity"] = rng.one((0.0, 0.5, 1.0))
    if rng.chance(20):          # in a context so small that prompt and answer fill it
        server["context_shift"], server["ctx_size"] = True, 128
    if "+M" in model:
        server["spec_type"], server["spec_draft_n_max"] = "mtp", rng.one((1, 2, 4))
    edges: tuple[int, ...] = (1, 4, 5, 6, ubatch, batch, server.get("ctx_checkpoints_interval", 512))
    room = server["ctx_size"] // server.get("parallel", 1)
    spare = 2 if "context_shift" in server else 8
    room = room - spare if not rng.chance(10) else room + 40
    if rng.chance(20):                           # prompts that are longer than the context
        server.pop("parallel", None)
        server["ctx_size"] = rng.one((128, 256))
        room = server["ctx_size"] + 150
        edges = (5, 64, 80, 100, 128)            # 64 tokens are the least that leave a checkpoint
    return World("ik_llama", model, server, edges, min(room, MANY * ubatch))


def _mlx_lm(rng: Rng, model: str) -> World:
    step = rng.one((2048, 2048, 64, 8, 7, 4, 3, 2, 2, 1))
    server: dict[str, Any] = {"prefill_step_size": step, "template": rng.one(("plain", "reasoning", "terse", "terse"))}
    server["thinking"] = rng.chance(40)
    if rng.chance(40):
        server["prompt_cache_size"] = rng.one((1, 2, 4))
    if rng.chance(20):
        server["prompt_cache_bytes"] = rng.one((20_000, 200_000))
    if rng.chance(30):
        server["prompt_concurrency"], server["decode_concurrency"] = rng.one((1, 2)), rng.one((1, 2, 4))
    if rng.chance(40 if set(model) == {"A"} else 4):     # others are refused since #1109
        server["draft_model"], server["num_draft_tokens"] = "A", rng.one((1, 2, 3))
    if rng.chance(20):
        server["snapshot_interval"] = rng.one((8, 32))
    return World("mlx_lm", model, server, (1, 2, 3, 8, 11, step), min(400, MANY * step))
