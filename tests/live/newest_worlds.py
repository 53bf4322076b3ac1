"""Drawn servers with the recorded tiny models of llama.cpp's newest memories, whose files are given.

On the CPU a kernel rounds more coarsely from 64 tokens of a micro-batch on, and a choice of rows near a tie makes that
large: micro-batches have at most 32 tokens. MiniMax M3 chooses rows only with flash attention.
"""

from __future__ import annotations

from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.model.hash_mixing import Rng
from cachesim.tools.live.llama_server.real import drawn_servers
from cachesim.tools.search.drawn_conversation import draw_server
from tests.shared import MODELS as SHARED

MODELS = {
    "W8 D4.8.3 D8.8": "deepseek4", "I8 I8": "deepseek32", "W8 I8": "dots3note", "A B2": "minimax-m3",
    "G P8": "qwen4exp",
}  # fmt: skip
"""Drawn layers -> recorded model with such a memory."""
UBATCH = 32
OptionSet = drawn_servers.OptionSet


def option_set(seed, number):
    """Return the option set of two integers; consecutive numbers take the models in turn."""
    layers = list(MODELS)[number % len(MODELS)]
    rng = Rng(seed * drawn_servers.SPREAD + number, "options of the newest memories")
    world = draw_server(rng, drawn_servers.ENGINE, (layers,))
    server = {**world.server, "ubatch_size": min(world.server["ubatch_size"], UBATCH)}
    return OptionSet(number, seed, world._replace(server=server), MODELS[layers], server)


def file_of(model, folder):
    """Return the file of a recorded model, in this folder or among the shared models. Raise BadInput if both lack
    it."""
    files = [Path(one) / f"tiny-{model}.gguf" for one in (folder, SHARED)]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise BadInput("no such model", file=str(files[0]), hint="--models FOLDER with the recorded tiny models")
    return found


def require_models(folder):
    """Raise BadInput unless all models are found."""
    for model in MODELS.values():
        file_of(model, folder)
