"""Memory layout of a model, and the declared sizes of its rows and states.

A   attention                     base
W   attention with windows        base + swa
R   recurrent                     recr
H   hybrid                        base + recr
HW  hybrid with windows           base + swa + recr

Source: llama.cpp src/llama-model.cpp create_memory (3f545be); byte counts of the tiny models are those logged in the
recordings. A model given by its notation has the row sizes of these models, unless it declares others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cachesim.base.errors import BadInput, nearest
from cachesim.engines.llama_cpp.memory.saved_state import STATE_FORM, AttentionShape, RecurrentShape, StateForm
from cachesim.engines.shared.size_formulas import split_sizes, states_bytes
from cachesim.model import Spec, parse

KV_ROW = 256                                                     # bytes of a K row plus a V row, F32
STATE_ROW = {"G": 5632, "S": 18688, "C": 512, "H": 18688}        # bytes of conv and state of a layer


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Model from the memory's point of view."""

    name: str
    spec: Spec
    mrope: bool = False                    # 2-D positions, which cannot be shifted
    row_bytes: int = KV_ROW                # bytes of a K row plus a V row of a layer
    form: StateForm = STATE_FORM           # state format of the build
    state_bytes: int = 0                   # bytes of the state of a recurrent layer, 0 = as in the recorded models
    n_swa: int = field(init=False, repr=False, compare=False)             # window in positions, 0 = none
    base: tuple[int, ...] = field(init=False, repr=False, compare=False)  # layers in the full-attention cache
    swa: tuple[int, ...] = field(init=False, repr=False, compare=False)   # layers in the window cache
    recr: tuple[int, ...] = field(init=False, repr=False, compare=False)  # layers with a recurrent state
    kind: str = field(init=False, repr=False, compare=False)              # A, W, R, H or HW

    def __post_init__(self) -> None:
        """Compute the fields that every step needs."""
        object.__setattr__(self, "n_swa", max((layer.window for layer in self.spec.layers), default=0))
        layers = tuple(enumerate(self.spec.layers))
        for part in ("base", "swa"):
            object.__setattr__(self, part, tuple(i for i, layer in layers if layer.part == part))
        object.__setattr__(self, "recr", tuple(i for i, layer in layers if layer.recurrence))
        if not self.recr:
            kind = "W" if self.swa else "A"
        elif self.swa:
            kind = "HW"
        else:
            kind = "H" if self.base else "R"
        object.__setattr__(self, "kind", kind)

    def attention_shape(self, layers: tuple[int, ...]) -> AttentionShape:
        """Return the declared shape of the attention cache of these layers."""
        return AttentionShape(len(layers), self.row_bytes, self.mrope, self.form)

    def recr_shape(self) -> RecurrentShape:
        """Return the declared shape of the recurrent memory."""
        return RecurrentShape(len(self.recr), states_bytes(self.spec, STATE_ROW, self.state_bytes))


KIND_WORDS = {"A": "attention", "W": "windows", "R": "recurrent", "H": "hybrid", "HW": "hybrid with windows"}

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
}
"""Recorded tiny models: notation, and whether their positions are 2-D."""


MROPE = ("qwen35",)
"""Architectures with 2-D positions: ``qwen35-GGGA`` is a model of layers GGGA with 2-D positions."""


def draft_kind(kind: ModelKind, spec_type: str, draft_model: str) -> ModelKind | None:
    """Return the model of the draft context, None without a draft context: an attention layer for an MTP head, or the
    named draft model. Its K/V rows are F16."""
    if spec_type == "draft-mtp":
        return ModelKind(f"{kind.name}+mtp", parse("A"), kind.mrope, KV_ROW // 2, kind.form)
    if spec_type == "draft-simple":
        return replace(model_kind(draft_model), row_bytes=KV_ROW // 2, form=kind.form)
    return None


def model_kind(name: str) -> ModelKind:
    """Return the model for a recorded name, or for a notation, optionally after an architecture or with declared sizes.
    Raise BadInput."""
    layers, sizes = split_sizes(name)
    if sizes is not None:
        return replace(model_kind(layers), name=name, row_bytes=sizes.row, state_bytes=sizes.state)
    if name in RECORDED:
        notation, mrope = RECORDED[name]
        return ModelKind(name, parse(notation), mrope)
    arch, dash, layers = name.partition("-")
    mrope = bool(dash) and arch in MROPE
    try:
        return ModelKind(name, parse(layers if mrope else name), mrope)
    except BadInput as error:
        hint = nearest(name, RECORDED)
        raise BadInput(error.cause, hint=hint or error.hint) from None
