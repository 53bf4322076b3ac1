"""Projector files (``--mmproj``) for the tiny models, with random weights.

A projector turns an image into embeddings of the model's width. ``qwen2vl``: one for each 8 by 8 pixels, between two
texts; ``mlp``: 4 by 4, without text around; ``gemma3``: 3 by 3, evaluated without causal mask, between two texts.
Source: llama.cpp tools/mtmd/clip.cpp load_hparams and load_tensors (b11549); sizes from the recorded projectors.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.untrusted_files import kind as kind_of_file
from cachesim.engines.shared.images import PROJECTOR_FILE
from cachesim.tools.live.llama_server.gguf_tensors import EMBD
from cachesim.tools.live.llama_server.tiny_gguf import ARRAY, FLOAT32, Tensor, write_gguf

WIDTH, FF = 32, 48
HALF = 0x3F000000                     # the bits of 0.5, in a list that is written as INT32


class Projector(NamedTuple):
    """A kind of projector. ``begin``, ``end``: texts that the server puts around an image; ``pixels``: side of the
    square of pixels that gives an embedding; ``size``: columns and rows of every image, None = as the image has;
    ``is_flat``: a model with 2-D positions counts a position for each embedding."""

    type: str
    begin: str
    end: str
    image: int                        # side of the image for which its weights are made [pixels]
    patch: int                        # side of a patch [pixels]
    pixels: int
    size: tuple[int, int] | None
    is_flat: bool


PROJECTORS = {
    "qwen2vl": Projector("qwen2vl_merger", "<|vision_start|>", "<|vision_end|>", 56, 4, 8, None, False),
    "mlp": Projector("mlp", "", "", 32, 8, 8, (4, 4), True),
    "gemma3": Projector("gemma3", "<start_of_image>", "<end_of_image>", 48, 8, 16, (3, 3), True),
}
NAMED = re.compile(re.escape(PROJECTOR_FILE).replace("KIND", f"({'|'.join(PROJECTORS)})"))


def projector_in(flags: Sequence[str]) -> str:
    """Return the kind of the projector that flags name, "" without a projector."""
    return next((found[1] for word in flags if (found := NAMED.fullmatch(word))), "")


def with_projector(flags: Sequence[str], folder: Path) -> list[str]:
    """Return the flags with a file of this folder in place of the projector; write the file if it is missing."""
    kind = projector_in(flags)
    file = folder / f"tiny-mmproj-{kind}.gguf"
    if kind and not kind_of_file(file):
        folder.mkdir(parents=True, exist_ok=True)
        write_projector(kind, file)
    return [str(file) if NAMED.fullmatch(word) else word for word in flags]


def write_projector(kind: str, path: Path) -> None:
    """Write a projector. The bytes depend only on its kind."""
    made, mean, deviation = PROJECTORS[kind], "clip.vision.image_mean", "clip.vision.image_std"
    layers = 3 if kind == "mlp" else 2                       # the last layer of an mlp projector is not evaluated
    sizes = {"embedding_length": WIDTH, "attention.head_count": 2, "feed_forward_length": FF, "projection_dim": EMBD,
             "block_count": layers, "image_size": made.image, "patch_size": made.patch,
             "attention.layer_norm_epsilon": 1e-6}  # fmt: skip
    more = {"qwen2vl": {"image_min_pixels": 64, "image_max_pixels": 1 << 18}, "gemma3": {"projector.scale_factor": 2}}
    keys = {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True,
            "clip.projector_type": made.type, "clip.use_gelu": True, mean: [HALF] * 3, deviation: [HALF] * 3,
            **{f"clip.vision.{name}": value for name, value in (sizes | more.get(kind, {})).items()}}  # fmt: skip
    write_gguf(str(path), keys, list(_tensors(kind, made, layers)))
    for key in (mean, deviation):
        retype(path, key, FLOAT32)


def retype(path: Path, key: str, kind: int) -> None:
    """Declare the numbers of a list in a file as another type of four bytes: lists are written as INT32."""
    data = path.read_bytes()
    at = data.index(key.encode()) + len(key)
    path.write_bytes(data[:at] + struct.pack("<II", ARRAY, kind) + data[at + 8 :])


def _tensors(kind: str, made: Projector, layers: int) -> Iterator[Tensor]:
    patch = (made.patch, made.patch, 3, WIDTH)
    yield Tensor("v.patch_embd.weight", patch, 0.2)
    if kind == "qwen2vl":
        yield Tensor("v.patch_embd.weight.1", patch, 0.2)
    else:
        yield Tensor("v.patch_embd.bias", (WIDTH,), 0.1)
        yield Tensor("v.position_embd.weight", (WIDTH, (made.image // made.patch) ** 2), 0.1)
    shapes = {**dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (WIDTH, WIDTH)), "ln1": (WIDTH,),
              "ln2": (WIDTH,), "ffn_up": (WIDTH, FF), "ffn_down": (FF, WIDTH)}  # fmt: skip
    for layer in range(layers):
        for name, shape in shapes.items():
            yield Tensor(f"v.blk.{layer}.{name}.weight", shape, 0.2, float(len(shape) == 1))
            yield Tensor(f"v.blk.{layer}.{name}.bias", shape[-1:], 0.1)
    yield Tensor("v.post_ln.weight", (WIDTH,), 0.1, 1.0)
    yield Tensor("v.post_ln.bias", (WIDTH,), 0.1)
    if kind == "gemma3":
        yield Tensor("mm.input_projection.weight", (EMBD, WIDTH), 0.2)
        yield Tensor("mm.soft_emb_norm.weight", (WIDTH,), 0.1, 1.0)
        return
    width = WIDTH if kind == "mlp" else 4 * WIDTH
    hidden = EMBD if kind == "mlp" else width
    for number, shape in ((0, (width, hidden)), (2, (hidden, EMBD))):
        yield Tensor(f"mm.{number}.weight", shape, 0.2)
        yield Tensor(f"mm.{number}.bias", shape[-1:], 0.1)
