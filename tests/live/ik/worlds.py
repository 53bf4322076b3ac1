"""Options under which a real server of ik_llama.cpp runs: drawn from the space of ``cachesim fuzz``."""

from __future__ import annotations

from cachesim.engines.registry import ENGINES
from cachesim.model.hash_mixing import Rng
from tests.live.worlds import SPREAD, OptionSet

DENSE, WINDOWS, HYBRID, HEADS = ("A", "llama"), ("W8 W8 W8 W8 W8 A", "gemma3l6"), ("GA", "GGGA", "qwen35d64"), \
    ("GA+M", "GGGA+M", "qwen35d64mtp")  # fmt: skip
MODELS = (*DENSE, *WINDOWS, *HYBRID, *HEADS)
"""Models with an architecture in ik_llama.cpp, as ``tests.live.ik.models`` writes them."""
DRAWN = {"A": DENSE, "W8 A": WINDOWS, "GA": HYBRID, "GGGA": HYBRID, "GGA+M": HEADS}
"""Drawn layers -> models with such a memory."""
FEW, MANY = "one", "several"
DRAFTS = {"ngram-simple": ",ngram_size_n=1,ngram_size_m=4", "mtp": ",p_min=0.0"}
"""Additional flags with which a drafter drafts often."""


def option_set(seed, number, slots=FEW):
    """Return the option set of two integers, with a single slot or with two to four."""
    rng = Rng(seed * SPREAD + number, "ik options", slots)
    kind = rng.one(tuple(name for name in DRAWN if slots == FEW or "+M" not in name))
    world = ENGINES["ik_llama"].manual.draw(rng, kind)
    model, server = rng.one(DRAWN[kind]), dict(world.server)
    server["flash_attn"] = rng.chance(25)
    server["parallel"] = 1 if slots == FEW else rng.one((2, 2, 3, 4))
    if slots == FEW and "spec_type" not in server and rng.chance(10):
        server["spec_type"], server["spec_draft_n_max"] = "ngram-simple", rng.one((2, 4))
    server |= _more(rng)
    if slots == MANY:
        server["ctx_size"] = max(server["ctx_size"], 128 * server["parallel"])
        server["slot_prompt_similarity"] = rng.one((0.0, 0.1, 0.1, 0.5))
    room = server["ctx_size"] // server["parallel"] - 16
    world = world._replace(server=server, most=min(world.most, room) if slots == MANY else world.most)
    return OptionSet(number, seed, world, model, server)


def _more(rng):
    """Draw options that the fuzzer does not draw."""
    out = {}
    if rng.chance(50):
        out["ctx_checkpoints_eviction"] = rng.one(("variance", "fifo", "auto"))
    if rng.chance(15):
        out["cache_ram_n_min"] = rng.one((16, 64))
    if rng.chance(15):
        out["reasoning_tokens"] = "none"
    if rng.chance(20):
        out["slot_prompt_similarity"] = rng.one((0.0, 0.5))
    return out


def drafting(flags):
    """Return the flags with which a drafter drafts often."""
    return tuple(word + DRAFTS.get(word.partition(":")[0], "") if before == "--spec-type" else word
                 for before, word in zip(("", *flags), flags, strict=False))  # fmt: skip
