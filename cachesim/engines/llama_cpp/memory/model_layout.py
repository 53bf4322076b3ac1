"""The memory that a model gets, and the declared sizes of its rows and states.

A   attention                     base
W   attention with windows        base + swa
R   recurrent                     recr
H   hybrid                        base + recr
HW  hybrid with windows           base + swa + recr

Source: llama.cpp src/llama-model.cpp create_memory (3f545be); byte counts of the tiny models are those that
recordings log. A model given by its notation has the row sizes of those models, unless it declares others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cachesim.base.errors import BadInput, nearest
from cachesim.engines.llama_cpp.memory.saved_state import STATE_FORM, AttentionShape, RecurrentShape, StateForm
from cachesim.engines.shared.size_formulas import split_sizes, states_bytes
from cachesim.model import Spec, parse

KV_ROW = 256                                                     # bytes of a K row plus a V row, F32
STATE_ROW = {"G": 5632, "S": 18688, "C": 512, "H": 18688}        # bytes of conv and state of one layer


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A model as the memory sees it. ``mrope``: positions are 2-D, so they cannot be shifted; ``row_bytes``: a K row
    and a V row of one layer; ``form``: how the build writes a saved state; ``state_bytes`` of one recurrent layer, 0 =
    those of the recorded models. ``n_swa``: the window of the window layers in positions, 0 = none; ``base``, ``swa``,
    ``recr``: layers whose rows lie in the full attention cache, in the window cache, layers with a recurrent state;
    ``kind``: A, W, R, H or HW."""

    name: str
    spec: Spec
    mrope: bool = False
    row_bytes: int = KV_ROW
    form: StateForm = STATE_FORM
    state_bytes: int = 0
    n_swa: int = field(init=False, repr=False, compare=False)
    base: tuple[int, ...] = field(init=False, repr=False, compare=False)
    swa: tuple[int, ...] = field(init=False, repr=False, compare=False)
    recr: tuple[int, ...] = field(init=False, repr=False, compare=False)
    kind: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work out what is asked for at every step."""
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
        """Declared shape of the attention cache of these layers."""
        return AttentionShape(len(layers), self.row_bytes, self.mrope, self.form)

    def recr_shape(self) -> RecurrentShape:
        """Declared shape of the recurrent memory."""
        return RecurrentShape(len(self.recr), states_bytes(self.spec, STATE_ROW, self.state_bytes))


RECORDED = {
    "llama": ("AAAA", False),
    "gemma3": ("W32 A W32 A", False),
    "gemma3l6": ("W32 W32 W32 W32 W32 A", False),
    "mamba2": ("SSSS", False),
    "qwen35": ("GGGAGGGA", True),
    "qwen35mtp": ("GGGAGGGA+M", True),
    "lfm2": ("CCACAC", False),
    "lfm2swa": ("C C W32 C W32 C", False),
    "falconh1": ("HHH", False),
    "granitehybrid": ("SSASSA", False),
}
"""The recorded tiny models: notation, and whether their positions are 2-D."""


MROPE = ("qwen35",)
"""Architectures with 2-D positions: ``qwen35-GGGA`` is the model of these layers that has them."""


def draft_kind(kind: ModelKind, spec_type: str, draft_model: str) -> ModelKind | None:
    """The model of the draft context, None where there is none: a plain attention layer for an MTP head, or the draft
    model that was named. Its K/V rows are F16."""
    if spec_type == "draft-mtp":
        return ModelKind(f"{kind.name}+mtp", parse("A"), kind.mrope, KV_ROW // 2, kind.form)
    if spec_type == "draft-simple":
        return replace(model_kind(draft_model), row_bytes=KV_ROW // 2, form=kind.form)
    return None


def model_kind(name: str) -> ModelKind:
    """The model of a recorded name, or of a notation, perhaps behind an architecture or with declared sizes. Raises
    BadInput."""
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
