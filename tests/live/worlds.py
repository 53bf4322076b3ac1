"""Under which options does the real server run? Drawn from the space of ``cachesim fuzz``, for models that exist."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cachesim.fuzz.case import draw_in
from cachesim.fuzz.rng import Rng
from cachesim.fuzz.worlds import World, draw_world

MODELS = {
    "A": ("llama",), "AA": ("llama",), "W8 A": ("gemma3",), "W8 W8": ("gemma3", "gemma3l6"),
    "GA": ("qwen35",), "GGGA": ("qwen35", "granitehybrid"), "S": ("mamba2",), "SS": ("mamba2", "granitehybrid"),
    "CA": ("lfm2",), "HH": ("falconh1",), "G W8": ("lfm2swa",), "C W8": ("lfm2swa",),
}  # fmt: skip
"""What is drawn by its layers -> tiny models with such a memory."""
SPREAD = 1 << 20               # conversation c of option set n of seed s is the integer (s * SPREAD + n) * SPREAD + c


class OptionSet(NamedTuple):
    """One start of a server. ``world``: what conversations are drawn for; ``model`` and ``server``: what is started."""

    number: int
    seed: int
    world: World
    model: str
    server: dict

    def case(self, conversation):
        """A conversation with this server."""
        drawn = draw_in(self.world, (self.seed * SPREAD + self.number) * SPREAD + conversation)
        return replace(drawn, model=self.model, server=self.server)


def option_set(seed, number, models=MODELS):
    """The option set that two integers stand for."""
    rng = Rng(seed * SPREAD + number, "options")
    world = draw_world(rng, "llama_cpp", tuple(models))
    model, server = rng.one(models[world.model]), dict(world.server)
    if "spec_type" in server:
        model, server = _drafting(rng, model, server)
        world = world._replace(server=server)
    return OptionSet(number, seed, world, model, server)


def _drafting(rng, model, server):
    """Who drafts: n-grams, a draft model, or the model's own head."""
    kind = rng.one(("ngram-simple", "draft-simple", "draft-mtp"))
    server = {**server, "spec_type": kind}
    if kind == "draft-mtp":
        return "qwen35mtp", server
    if kind == "draft-simple":
        server["model_draft"] = rng.one(("llama", "llama", "mamba2"))
    return model, server
