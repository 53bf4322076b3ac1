"""Tiny models that ik_llama.cpp loads: random weights in the sizes that the simulator declares for the notation.

Windows of gemma3 come in periods of six layers there, the last with full attention. Gated delta nets have heads of 64:
with other sizes the real server's arithmetic depends on how a batch is split.
Source: ik_llama.cpp src/llama-hparams.cpp, src/llama-delta-net.cpp (8337e4c).
"""

from __future__ import annotations

from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.tools.live.llama_server.gguf_models import GgufModel, tiny_model
from cachesim.tools.live.llama_server.gguf_tensors import DeltaNetSizes

WIDE = DeltaNetSizes(heads=2, keys=1, width=64)
PERIOD = 6


def find_model(notation):
    """Return the model of a notation. Raise BadInput if ik_llama.cpp does not support it."""
    found = model_kind(notation)
    spec, name = found.spec, found.name if found.words else notation.replace(" ", "")
    kinds = {layer.kind for layer in spec.layers}
    if kinds == {"A"} and not spec.mtp:
        return GgufModel("llama", spec, name)
    if kinds == {"G", "A"}:
        return GgufModel("qwen35", spec, name, WIDE)
    full = [layer.kind == "A" for layer in spec.layers]
    if kinds <= {"W", "A"} and full == [(i + 1) % PERIOD == 0 for i in range(len(full))]:
        return GgufModel("gemma3", spec, name, head=found.head)
    raise BadInput(f"ik_llama.cpp has no architecture for the layers '{notation}'")


def name_of(file):
    """Return the name of the model in a file, as in a trace."""
    return file.stem.replace("_", "/")


def write_models(folder, notations):
    """Write the models that the folder lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for notation in notations:
        file = folder / find_model(notation).file
        if not file.exists():
            beside = file.with_suffix(".new")
            tiny_model(find_model(notation)).write(str(beside), 0)
            beside.replace(file)
