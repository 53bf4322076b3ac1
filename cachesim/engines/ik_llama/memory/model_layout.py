"""Memory layout of a model, and the bytes that the real engine needs for it.

recurrent   no attention layers: a cell per sequence holds everything
hybrid      attention in cells, and a recurrent row per sequence id
private     states outside the cells (DeepSeek-V4): windows may be compacted
all others  attention in cells, whatever the window of a layer: the window is a mask, not a ring

Source: ik_llama.cpp src/llama.cpp llama_kv_cache_init (8337e4cd3). Sizes fitted to the recorded `mib` and `est`: K/V
rows are F16, a cell has 8 bytes of metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cachesim.base.errors import BadInput, nearest
from cachesim.engines.shared.size_formulas import HEAD, split_sizes, states_bytes
from cachesim.model import Spec, parse

KV_ROW = 128                                                      # bytes of a K row plus a V row, F16
CELL = 8                                                          # bytes of a cell's metadata in a saved state
STATE_ROW = {"G": 35840, "S": 18688, "C": 512, "H": 18688}        # bytes of the recurrent row of a layer


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Memory layout of a model."""

    name: str
    spec: Spec
    private: bool = False       # DeepSeek-V4's rules apply
    words: bool = False         # the tokens are those of the recorded vocabulary
    row_bytes: int = KV_ROW     # bytes of a K row and a V row of a layer
    window_bytes: int = KV_ROW  # the same of a layer with a window
    row_of_state: int = 0       # bytes of the recurrent row of a layer, 0 = as in the recorded models
    head: int = HEAD            # width of an attention head [numbers]
    mrope: bool = False         # M-RoPE: an image has a single position

    @property
    def attention(self) -> tuple[int, ...]:
        """Layers with K/V rows."""
        return tuple(i for i, layer in enumerate(self.spec.layers) if layer.part)

    @property
    def windows(self) -> tuple[int, ...]:
        """Attention layers with a sliding window."""
        return tuple(i for i, layer in enumerate(self.spec.layers) if layer.window)

    @property
    def states(self) -> tuple[int, ...]:
        """Layers with a recurrent row."""
        return tuple(i for i, layer in enumerate(self.spec.layers) if layer.recurrence)

    @property
    def hybrid(self) -> bool:
        """True if the model has attention and recurrent layers."""
        return bool(self.attention and self.states)

    @property
    def recurrent(self) -> bool:
        """True if all layers are recurrent."""
        return bool(self.states) and not self.attention

    @property
    def n_swa(self) -> int:
        """Width of the windows [positions], 0 = none."""
        return max(layer.window for layer in self.spec.layers)

    def state_bytes(self, n: int, partial: bool) -> int:
        """Return the bytes of a saved sequence of ``n`` cells; a partial state omits the K/V rows. The head of a
        model's MTP layer has rows in the target, too. Every layer has a header, with or without rows."""
        full = len(self.attention) - len(self.windows) + self.spec.mtp
        row = full * self.row_bytes + len(self.windows) * self.window_bytes
        states = states_bytes(self.spec, STATE_ROW, self.row_of_state)
        return saved_bytes(len(self.spec.layers) + self.spec.mtp, n, 0 if partial else row, states)


def saved_bytes(layers: int, n: int, row: int, states: int, has_values: bool = True) -> int:
    """Return the bytes of a saved sequence of ``n`` cells. ``layers``: all layers, the MTP head's among them; ``row``:
    bytes of a cell's rows, 0 = omitted; ``states``: bytes of all states; ``has_values``: there are V rows."""
    header = (24 if has_values else 12) + (16 if states else 0)
    return 20 + header * layers + states + n * (CELL + row)


RECORDED = {
    "llama": "AAAA",
    "gemma3l6": "W32 W32 W32 W32 W32 A",
    "qwen35d64": "GGGAGGGA",
    "qwen35d64mtp": "GGGAGGGA+M",
}
"""The recorded tiny models."""

MROPE = "qwen35"
"""Beginning of the names of recorded models with M-RoPE."""

PRIVATE = {"deepseek4": "W128 A W128 A+M", "deepseek4-states": "W128 C W128 A"}
"""Models without recordings, with invented proportions. A short convolution stands for the compressed indexer states,
which are a state for each sequence; ``deepseek4`` omits them."""


def model_kind(name: str) -> ModelKind:
    """Return the layout of a model given by name or by notation, optionally with declared sizes. Raise BadInput."""
    layers, sizes = split_sizes(name)
    if sizes is not None:
        return replace(model_kind(layers), name=name, row_bytes=sizes.row, window_bytes=sizes.window_row,
                       row_of_state=sizes.state, head=sizes.head)  # fmt: skip
    if name in RECORDED:
        return ModelKind(name, parse(RECORDED[name]), words=True, mrope=name.startswith(MROPE))
    if name in PRIVATE:
        return ModelKind(name, parse(PRIVATE[name]), private=True)
    try:
        return ModelKind(name, parse(name))
    except BadInput as error:
        raise BadInput(error.cause, hint=nearest(name, [*RECORDED, *PRIVATE]) or error.hint) from None
