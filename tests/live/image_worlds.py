"""Options and conversations with images for ``--kit llama_cpp-images``: those of ``worlds``, with a projector and with
images in the prompts, also for models with 2-D positions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.shared.images import NONCAUSAL
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import map_step_texts
from cachesim.scenarios.notation.word_lengths import NULL, ImageSize
from tests.live import worlds

TWO_D = ("qwen2vl", "qwen35-GA", "qwen35-GGGA")
BARE = ("A", "GGGA", "W8 A", "SS", "CA", "HH", "C W8", "qwen35-GA")
"""Models that run with projector ``mlp``, whose images have no text around them, instead of ``qwen2vl``."""
SIZES = {"mlp": ("4x4",), "gemma3": ("3x3",), "qwen2vl": ("2x2", "4x2", "1x6", "4x4", "3x3", "9x8")}
"""Projector -> sizes of its images; the last is longer than a batch of 64."""


class ImageSet(NamedTuple):
    """A server start with a projector; see ``worlds.OptionSet``."""

    number: int
    seed: int
    world: DrawnServer
    model: str
    server: dict

    def case(self, conversation):
        """Return a conversation with this server. A prompt with an image has no token -1, which a text cannot have."""
        drawn = worlds.OptionSet(*self).case(conversation)

        def sendable(pieces):
            images = any(isinstance(drawn.words[piece.word], ImageSize) for piece in pieces)
            return tuple(piece for piece in pieces if not images or piece.word != NULL)

        return replace(drawn, asked=tuple(map_step_texts(step, sendable) for step in drawn.asked))


def option_set(seed, number):
    """Return the option set of two integers."""
    drawn, rng = worlds.option_set(seed, number), Rng(seed * worlds.SPREAD + number, "images")
    model = drawn.model
    if "spec_type" not in drawn.server and rng.chance(25):
        model = rng.one(TWO_D)
    server = {**drawn.server, "mmproj": NONCAUSAL if rng.chance(25) else "causal"}
    world = drawn.world._replace(server=server, images=SIZES[projector_of(model, server["mmproj"])])
    return ImageSet(number, seed, world, model, server)


def projector_of(model, kind):
    """Return the projector for a model and the value of ``mmproj``."""
    return kind if kind == NONCAUSAL else "mlp" if model in BARE else "qwen2vl"


def write_models(folder):
    """Write the models that the folder lacks."""
    worlds.write_models(folder, (*worlds.models(), *TWO_D))
