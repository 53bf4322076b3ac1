"""Models of drawn conversations for the real server, as files in a folder."""

from __future__ import annotations

from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from cachesim.tools.live.llama_server.real.drawn_servers import SPREAD, OptionSet, drawn_models, option_set

__all__ = ["SPREAD", "OptionSet", "option_set", "write_models"]


def write_models(folder, notations=()):
    """Write the models that the folder lacks, those of drawn servers by default."""
    folder.mkdir(parents=True, exist_ok=True)
    for notation in notations or drawn_models():
        file = folder / find_model(notation).file
        if not file.exists():
            beside = file.with_suffix(".new")
            write_model(notation, beside)
            beside.replace(file)
