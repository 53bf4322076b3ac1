"""Memory layout of a model, and the declared sizes of its rows and states.

A   attention                     base
W   attention with windows        base + swa
R   recurrent                     recr
H   hybrid                        base + recr
HW  hybrid with windows           base + swa + recr
dsa, dsa_iswa, msa, hybrid_idx, dsv4: the newest memories, see newest_layout.py; idx = index rows

Source: llama.cpp src/llama-model.cpp create_memory (3f545be, b11549); byte counts of the tiny models are those logged
in the recordings. A model given by its notation has the row sizes of these models, unless it declares others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cachesim.base.errors import BadInput, nearest
from cachesim.engines.llama_cpp.memory.newest_layout import (
    OLDER,
    POOL_KEY,
    ROWS,
    CacheRows,
    Dsv4Shape,
    dsv4_shape,
    index_layers,
    memory_class,
    stored_bytes,
)
from cachesim.engines.llama_cpp.memory.saved_state import STATE_FORM, AttentionShape, RecurrentShape, StateForm
from cachesim.engines.shared.size_formulas import F16, F32, HEAD, split_sizes, states_bytes
from cachesim.model import Spec, parse

KV_ROW = OLDER.each                                              # bytes of a K row plus a V row, F32
STATE_ROW = {"G": 5632, "S": 18688, "C": 512, "H": 18688}        # bytes of conv and state of a layer


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Model from the memory's point of view."""

    name: str
    spec: Spec
    mrope: bool = False                    # 2-D positions, which cannot be shifted
    own_row: int = -1                      # bytes of a K row plus a V row of a layer, -1 = as in the recorded models
    own_window_row: int = -1               # the same of a layer with a window, -1 = as ``own_row``
    form: StateForm = field(default=STATE_FORM, repr=False, compare=False)      # state format of the build
    state_bytes: int = 0                   # bytes of the state of a recurrent layer, 0 = as in the recorded models
    history_bytes: int = 0                 # bytes of the history of n-gram embeddings, 0 = no layer has them
    head: int = 0                          # numbers of a head, 0 = not known
    types: tuple[str, str] = ("f16", "f16")       # of K and V rows; those that are not quantized are as declared
    n_swa: int = field(init=False, repr=False, compare=False)             # window in positions, 0 = none
    base: tuple[int, ...] = field(init=False, repr=False, compare=False)  # layers in the full-attention cache
    swa: tuple[int, ...] = field(init=False, repr=False, compare=False)   # layers in the window cache
    recr: tuple[int, ...] = field(init=False, repr=False, compare=False)  # layers with a recurrent state, or a ring
    idx: tuple[int, ...] = field(init=False, repr=False, compare=False)   # layers with index rows
    kind: str = field(init=False, repr=False, compare=False)              # A, W, R, H or HW, or a newest memory

    def __post_init__(self) -> None:
        """Compute the fields that every step needs."""
        object.__setattr__(self, "n_swa", max(layer.window for layer in self.spec.layers))
        layers = tuple(enumerate(self.spec.layers))
        for part in ("base", "swa"):
            object.__setattr__(self, part, tuple(i for i, layer in layers if layer.part == part))
        object.__setattr__(self, "recr", tuple(i for i, layer in layers if layer.recurrence or layer.ratio))
        object.__setattr__(self, "idx", index_layers(self.spec.layers))
        if newest := memory_class(self.spec.layers):
            kind = newest
        elif not self.recr:
            kind = "W" if self.swa else "A"
        elif self.swa:
            kind = "HW"
        else:
            kind = "H" if self.base else "R"
        object.__setattr__(self, "kind", kind)

    @property
    def row_bytes(self) -> int:
        """Bytes of a K row plus a V row in a layer with full attention."""
        return self.own_row if self.own_row >= 0 else ROWS.get((self.kind, "base"), OLDER).each

    @property
    def saves_all(self) -> bool:
        """True if a partial state of this memory contains everything."""
        return self.kind in ("A", "dsa", "msa")

    def attention_shape(self, part: str) -> AttentionShape:
        """Return the declared shape of an attention cache: "base", "swa" or "idx". A declared size of a row includes
        the index row."""
        rows, layers = ROWS.get((self.kind, part), OLDER), getattr(self, part)
        if self.kind == "hybrid_idx" and part == "idx":
            rows = CacheRows(self.form.pool_keys * POOL_KEY, self.form.pool_tensors)
        number = F32
        if self.own_row >= 0:
            own = self.own_window_row if part == "swa" and self.own_window_row >= 0 else self.own_row
            rows, number = CacheRows(0 if part == "idx" else own, rows.tensors), F16
        each = stored_bytes(rows.each, number, self.types[: rows.tensors])
        return AttentionShape(len(layers), each, self.mrope, self.form, rows.tensors)

    def recr_shape(self) -> RecurrentShape:
        """Return the declared shape of the recurrent memory."""
        states = states_bytes(self.spec, STATE_ROW, self.state_bytes)
        return RecurrentShape(len(self.recr), states + self.history_bytes, int(self.history_bytes > 0))

    def dsv4_shape(self) -> Dsv4Shape:
        """Return the declared shape of compressed rows and rings."""
        return dsv4_shape([layer.ratio for layer in self.spec.layers])


KIND_WORDS = {
    "A": "attention", "W": "windows", "R": "recurrent", "H": "hybrid", "HW": "hybrid with windows",
    "dsa": "index rows", "dsa_iswa": "index rows and windows", "msa": "index rows of blocks",
    "hybrid_idx": "hybrid with index rows", "dsv4": "compressed rows",
}  # fmt: skip

RECORDED = {
    "llama": ("AAAA", False),
    "gemma3": ("W32 A W32 A", False),
    "gemma3l6": ("W32 W32 W32 W32 W32 A", False),
    "qwen2vl": ("AAAA", True),
    "mamba2": ("SSSS", False),
    "qwen35": ("GGGAGGGA", True),
    "qwen35mtp": ("GGGAGGGA+M", True),
    "lfm2": ("CCACAC", False),
    "lfm2swa": ("C C W32 C W32 C", False),
    "falconh1": ("HHH", False),
    "granitehybrid": ("SSASSA", False),
    "deepseek4": ("W32 D4.32.12 D128.32 D4.32.12", False),
    "deepseek32": ("I48 I48 I48", False),
    "deepseek32one": ("I48", False),
    "dots3note": ("W32 I48 W32 I48", False),
    "minimax-m3": ("A B4 B4 B4", False),
    "qwen4exp": ("G P48 G P48", True),
}
"""Recorded tiny models: notation, and whether their positions are 2-D."""

HEADS = {"dsa": 48, "dsa_iswa": 48, "dsv4": 32}
"""Kind of a recorded tiny model -> numbers of a K head, 16 for all others."""
HISTORY = 6144
"""Bytes of the history of n-gram embeddings, which the recorded model with pooled index rows and 2-D positions has."""


MROPE = ("qwen35",)
"""Architectures with 2-D positions: ``qwen35-GGGA`` is a model of layers GGGA with 2-D positions."""


def draft_kind(kind: ModelKind, spec_type: str, draft_model: str, head_bits: int = 16) -> ModelKind | None:
    """Return the model of the draft context, None without a draft context: an attention layer for an MTP head, or the
    named draft model. Its K/V rows are F16. ``head_bits``: bits of a number in the rows of an MTP head, 0 = as in the
    target's rows."""
    if spec_type == "draft-mtp":
        row = KV_ROW * head_bits // 32 if head_bits else kind.own_row
        return ModelKind(f"{kind.name}+mtp", parse("A"), mrope=kind.mrope, own_row=row, form=kind.form)
    if spec_type == "draft-simple":
        return replace(model_kind(draft_model), own_row=KV_ROW // 2, form=kind.form)
    return None


def model_kind(name: str) -> ModelKind:
    """Return the model for a recorded name, or for a notation, optionally after an architecture or with declared sizes.
    Raise BadInput."""
    layers, sizes = split_sizes(name)
    if sizes is not None:
        return replace(model_kind(layers), name=name, own_row=sizes.row, own_window_row=sizes.window,
                       state_bytes=sizes.state, head=sizes.head, history_bytes=0)  # fmt: skip
    if name in RECORDED:
        notation, mrope = RECORDED[name]
        kind = _with_history(ModelKind(name, parse(notation), mrope))
        return replace(kind, head=HEADS.get(kind.kind, HEAD))
    arch, dash, layers = name.partition("-")
    mrope = bool(dash) and arch in MROPE
    try:
        return _with_history(ModelKind(name, parse(layers if mrope else name), mrope))
    except BadInput as error:
        hint = nearest(name, RECORDED)
        raise BadInput(error.cause, hint=hint or error.hint) from None


def _with_history(kind: ModelKind) -> ModelKind:
    """Return the model with the history of its n-gram embeddings, if its architecture has them."""
    return replace(kind, history_bytes=HISTORY) if kind.mrope and kind.kind == "hybrid_idx" else kind
