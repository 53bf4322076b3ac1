"""Adapter files (LoRA, and activated LoRA: aLoRA) for the tiny models, with random weights.

They are so strong that another adapter changes most greedy answers. The command line that a scenario stands for names
them ``MODELS/lora0.gguf``, or ``MODELS/alora1-101.102.gguf`` for an aLoRA with these invocation tokens. In exported
programs the model's name precedes that of the file.
Source: llama.cpp src/llama-adapter.cpp (b11549); sizes from the adapters of the recorded models.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import kind
from cachesim.tools.live.llama_server.gguf_models import GgufModel, find_model, tiny_model
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel

RANK, ALPHA, SPREAD = 2, 4.0, 0.35
INVOCATION = "adapter.alora.invocation_tokens"
ADAPTED = re.compile(r"\.(?:attn_(?:q|k|v|qkv|gate)|ffn_down|ssm_in|shortconv\.in_proj)\.weight$")
"""Tensors that an adapter changes: those that K/V rows and states depend on."""
NAMED = re.compile(r"MODELS/(?:tiny-[^/:,]*?-)?(a?lora(\d+)(?:-([\d.]+))?\.gguf)")


def with_adapters(flags: Sequence[str], gguf: Path, folder: Path) -> tuple[str, ...]:
    """Return the flags with files of this folder in place of adapters; write the files that it lacks. Raise BadInput
    for a model that was not written by cachesim."""

    def placed(found: re.Match[str]) -> str:
        file = folder / f"{gguf.stem}-{found[1]}"
        if not kind(file):
            folder.mkdir(parents=True, exist_ok=True)
            next(iter(adapter_files(_model_of(gguf), [found[0]]).values())).write(str(file))
        return str(file)

    return tuple(NAMED.sub(placed, word) for word in flags)


def _model_of(gguf: Path) -> GgufModel:
    try:
        model = find_model(gguf.stem.removeprefix("tiny-"))
    except BadInput as bad:
        raise BadInput(f"adapters are only written for the models of cachesim: {bad.cause}", file=str(gguf),
                       hint="start a server with adapter files of the model, and use --url") from None  # fmt: skip
    return model


def adapter_files(model: GgufModel, flags: Sequence[str]) -> dict[str, TinyModel]:
    """Return the adapters of a tiny model that flags name, by file name."""
    files = {}
    for found in (one for word in flags for one in NAMED.finditer(word)):
        tokens = [int(token) for token in (found[3] or "").split(".") if token]
        files[found[0].removeprefix("MODELS/")] = tiny_adapter(model, int(found[2]) + 1, tokens)
    return files


def named_for(model: GgufModel, flags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags with the model's name before those of its adapters."""
    stem = model.file.removesuffix(".gguf")
    return tuple(NAMED.sub(lambda found: f"MODELS/{stem}-{found[1]}", word) for word in flags)


def tiny_adapter(model: GgufModel, seed: int, invocation: Sequence[int]) -> TinyModel:
    """Return an adapter for a tiny model. Its bytes depend only on the arguments."""
    keys = {"general.architecture": model.arch, "general.type": "adapter", "adapter.type": "lora",
            "adapter.lora.alpha": ALPHA, **({INVOCATION: tuple(invocation)} if invocation else {})}  # fmt: skip
    head = f"blk.{len(model.spec.layers)}."                  # the layer of an MTP head
    changed = [one for one in tiny_model(model).tensors() if ADAPTED.search(one.name) and not one.name.startswith(head)]
    pairs = [Tensor(f"{one.name}.lora_{part}", shape, SPREAD) for one in changed
             for part, shape in (("a", (one.shape[0], RANK)), ("b", (RANK, one.shape[1])))]  # fmt: skip
    return TinyModel(keys, pairs, {}, "", seed)
