"""Defects that a search without prior knowledge must find: profile, property, and how to recognise each."""

from __future__ import annotations

from typing import Callable, NamedTuple

from cachesim.scenarios.notation.tree import Action, LineRequest
from cachesim.scenarios.notation.word_lengths import NULL, size
from cachesim.tools.search.drawn_conversation import DrawnConversation
from tests.fuzz.cures import ONE_LEFT, RESUME_BEHIND, STRAIGHT_FIRST, WIDER, Cure, option, rules_of

WARM, STORED = "warm-equals-cold", "stored-equals-cold"


class Defect(NamedTuple):
    """A defect. ``said``: pattern of the finding's rule and text. ``cure``: makes the conversation hold. ``models``:
    layers of which the model must have at least one, "" = any. ``about``: further condition on the conversation.
    ``options``: those of every drawn server. ``needs``: steps without which the conversation holds.
    ``longest``: maximum tokens of the longest request of a shrunk case. ``least``: why a shrunk case has more than 40
    tokens."""

    name: str
    profile: str
    prop: str
    cure: Cure
    said: str = ""
    models: str = ""
    longest: int = 40
    least: str = ""
    about: Callable[[DrawnConversation], bool] = lambda case: True
    options: tuple[str, ...] = ()
    needs: Callable[[LineRequest | Action], bool] | None = None


def refused(case: DrawnConversation) -> bool:
    """True if the context is too small for a prompt."""
    if "ctx_size" not in case.server:
        return False
    room = case.server["ctx_size"] // case.server.get("parallel", 1)
    return any(size(one.prompt, case.words) >= room for one in case.asked if isinstance(one, LineRequest))


LC = "llama_cpp@"
IK = "ik_llama@"
ML = "mlx_lm@"

DEFECTS = (
    Defect("D1 adjacent", LC + "b10587", STORED, rules_of(LC + "24035-v3", "ckpt_erase"),
           r"checkpoint of ([2-9]|\d\d+) tokens: .*recurrent state", "SGCH"),
    Defect("D1 one token", LC + "b10587", STORED, rules_of(LC + "24035-v3", "ckpt_erase"),
           r"checkpoint of 1 tokens: .*recurrent state", "SGCH"),
    Defect("erosion", LC + "b10587", STORED, RESUME_BEHIND,
           r"checkpoint of .*rows from position \d+ on are missing", "W", 280,
           "a ring has 256 cells, where it is the ring that has lost the rows"),
    Defect("D4", LC + "b10587", WARM, option("cache_reuse", 0), "", "SGCH"),
    Defect("D5", LC + "b10587", WARM, rules_of(LC + "b8916", "kv_state"), "", "W",
           about=lambda case: bool(case.server.get("swa_full"))),
    Defect("#20671", LC + "b8392", WARM, rules_of(LC + "b8450", "ckpt_erase"), "", "W", 280,
           "a ring has 256 cells"),
    Defect("#24411", LC + "b9518", WARM, rules_of(LC + "b9765", "ckpt_pick"), "", "W"),
    Defect("#19924", LC + "b8152", WARM, rules_of(LC + "b8260", "ckpt_restore"), "", "", 280,
           "a ring has 256 cells; recurrent: no checkpoint below 64 tokens"),
    Defect("#19924 refused", LC + "b8152", "answered", rules_of(LC + "b8260", "ckpt_restore"), "", "", 140,
           "no checkpoint below 64 tokens"),
    Defect("#24143", LC + "b9518", "no-lost-conversation", rules_of(LC + "pr24143-on-b9518", "pc_after_hit")),
    Defect("#24035", LC + "b9473", "nothing-needless", rules_of(LC + "24035-v1", "ckpt_pick", "ckpt_restore",
                                                                      "ckpt_erase"), "", "SGCH"),
    Defect("ik D1", IK + "1889-base", WARM, rules_of(IK + "2105", "one"), "", "", 70, "no checkpoint below 64 tokens"),
    Defect("ik #1888", IK + "pr1888", WARM, rules_of(IK + "1889-base", "ckpt_pick"), "PR1888"),
    Defect("ik oversized", IK + "main", WARM, WIDER, "CKPT-PICK", "G", 300,
           "longer than the context, which is rounded up to 256", refused),
    Defect("7.1", ML + "0.32.2", "survives", ONE_LEFT, "ValueError"),
    Defect("7.2", ML + "d78bf58e", STORED, rules_of(ML + "0.32.2", "caches.arrays_mask"), "", "SGH"),
    Defect("7.4", ML + "0.32.2", STORED, option("draft_model", ""), r": 1 K/V rows from position \d+ on", "A"),
    Defect("7.9", ML + "0.32.2", WARM, STRAIGHT_FIRST, "", "W"),
    Defect("7.10", ML + "0.32.2", WARM, rules_of(ML + "m1072", "tail")),
    Defect("#976", ML + "0.31.0", STORED, rules_of(ML + "0.31.1", "row")),
    Defect("#911 twice", ML + "0.31.0", WARM, option("thinking", False)),
    Defect("#1006b key", ML + "pr1006b", STORED, rules_of(ML + "pr1006c", "create_at_pc"), "recurrent state"),
)


def _scales(step: LineRequest | Action) -> str:
    """Return the list of adapters of a request, "" without a list."""
    return str(dict(step.extra).get("lora", "")) if isinstance(step, LineRequest) else ""


def posts(step: LineRequest | Action) -> bool:
    """True for a step that changes the scales of the server."""
    return isinstance(step, Action) and step.do == "lora"


def restores(step: LineRequest | Action) -> bool:
    """True for a step that restores a slot file."""
    return isinstance(step, Action) and step.do == "restore"


def is_invalid(step: LineRequest | Action) -> bool:
    """True for a request without a list of adapters that is refused for a token that no model has."""
    return isinstance(step, LineRequest) and has_no_list(step) and any(piece.word == NULL for piece in step.prompt)


def is_negative(step: LineRequest | Action) -> bool:
    """True for a request with a negative scale."""
    return "-" in _scales(step)


def has_no_list(step: LineRequest | Action) -> bool:
    """True for a request without a list of adapters."""
    return isinstance(step, LineRequest) and not _scales(step)


def _without(*kinds: Callable[[LineRequest | Action], bool]) -> Callable[[DrawnConversation], bool]:
    return lambda case: not any(kind(step) for step in case.asked for kind in kinds)


KEYED, B = LC + "b11549-repaired", LC + "b11549"
PLAIN, ACTIVATED = ("lora_scaled=0,0",), ("lora_scaled=0@M",)
CLEAR, ENTRY = rules_of(KEYED, "adapters.clear"), rules_of(KEYED, "adapters.entry")

LISTS = _without(has_no_list, posts)
OF_ADAPTERS = (
    Defect("L1", B, WARM, ENTRY, options=PLAIN, about=LISTS),
    Defect("L2", B, WARM, CLEAR, options=PLAIN, about=_without(posts, is_invalid, is_negative), needs=has_no_list),
    Defect("L3", B, WARM, CLEAR, options=PLAIN, about=_without(is_invalid, is_negative), needs=posts),
    Defect("L4", B, WARM, rules_of(KEYED, "adapters.file"), options=PLAIN, needs=restores),
    Defect("L4b", B, WARM, CLEAR, options=PLAIN, about=_without(posts, restores), needs=is_invalid),
    Defect("L7", B, WARM, rules_of(KEYED, "adapters.rows"), options=ACTIVATED, about=LISTS),
    Defect("L7b", B, WARM, CLEAR, options=ACTIVATED, about=_without(posts, is_invalid, is_negative), needs=has_no_list),
    Defect("L7c", B, WARM, rules_of(KEYED, "adapters.cap"), options=ACTIVATED),
    Defect("L7d", B, WARM, ENTRY, options=ACTIVATED, about=LISTS),
    Defect("L7e", B, WARM, rules_of(KEYED, "adapters.chunks"), options=(*ACTIVATED, "cache_reuse=4", "A", "AA")),
    Defect("L8", B, WARM, CLEAR, options=("lora_scaled=0@M,0",), about=_without(posts, is_invalid, has_no_list),
           needs=is_negative),
    Defect("L9", B, WARM, rules_of(KEYED, "adapters.split"), options=(*ACTIVATED, "parallel=2")),
)
"""Defects of reuse under other adapters, each cured by a single rule of the repaired rule set."""
