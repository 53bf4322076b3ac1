"""Table of properties that should hold, by profile and kind of model: a search must find nothing there.

``without`` names features that are removed from every conversation first, because a known defect with its own scenario
would be found again and again: "room" a batch too small for the drafts of all slots (LC-SPEC-ROOM), "id_slot" D2 and
D3, "completions" D23, "cache_reuse" D4, "files" D11, "drafts" mlx-lm 7.4 and 7.5, "swa_full" D5, "slots"
ik-failed-load-leaves-tokens; under llama_cpp@b9473 and older a restored slot keeps the checkpoints of another text
(#25649).

Both versions of #24035 keep a checkpoint that ends within the common prefix although the prompt begins again from 0.
If that is interrupted, the list names more tokens than the slot has. This is harmless (the next prompt shares fewer
tokens, and the checkpoint is erased), but the checkpoint's tokens are unknown: "stored-equals-cold" is not among their
properties. ik_llama.cpp lists tokens of a refused prompt that were never evaluated (D13) and saves them, too; with
attention only, a request cannot reach them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Iterator, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.judging.compare_answer import Judge
from cachesim.scenarios.notation.tree import LineRequest, map_step_texts
from cachesim.scenarios.option_checks import filled
from cachesim.tools.search.campaign import SPREAD, findings
from cachesim.tools.search.drawn_conversation import KINDS, DrawnConversation, draw_conversation, small_models
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import crashed
from tests.shared import alike

ALL = tuple(PROPERTIES)
DEFAULTS = {"cache_reuse": "cache_reuse", "drafts": "draft_model", "swa_full": "swa_full", "shift": "context_shift",
            "thinking": "thinking"}  # fmt: skip
LLAMA = tuple(f"llama_cpp@{name}" for name in (
    "b11549-repaired", "b11549-lora-tried", "b11549-proposed", "b11549", "b11312", "b11063", "b10809", "b10587",
    "pr24143-on-b10587", "24035-v3", "b9765", "b9518", "pr24143-on-b9518", "b9473", "24035-v1", "b9231", "b9230",
    "pr29117-on-b9230", "22673-draft", "b9063", "b8916", "b8450", "b8392", "b8271", "b8260", "b8152", "b7789", "b7400",
    "b6998", "b6914", "b6740", "b6685", "b6388", "b6160", "b6110", "b5913", "b5833", "b5735", "b5630", "b5554", "b5340",
    "b5308", "b4579", "b4265", "b4094", "b3642", "b2781", "b1573",
))  # fmt: skip


class Hold(NamedTuple):
    """Properties that hold for these kinds of models under a profile."""

    profile: str
    kinds: tuple[str, ...]
    properties: tuple[str, ...] = ALL
    without: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model for model in small_models(ENGINES[self.profile.partition("@")[0]].manual)
                     if any(model in KINDS[kind] for kind in self.kinds))  # fmt: skip


def but(*names: str) -> tuple[str, ...]:
    """Return all properties except these."""
    return tuple(name for name in ALL if name not in names)


SOUND = ("memory-sound", "accounting", "limits", "seq-rm-atomic")
KNOWN = ("id_slot", "cache_reuse", "completions", "room")   # of llama.cpp; moved chunks never hold, by design
KEEPS = LLAMA[LLAMA.index("llama_cpp@b8450"):]
"""Before #20993 a waiting slot keeps the rows of its last conversation, and a unified cache of 256 cells may be too
small for a request that a fresh server answers."""
REPAIRED = ("warm-equals-cold", "stored-equals-cold", "survives")
HOLD = (
    Hold("llama_cpp@b11549-repaired", tuple(KINDS), REPAIRED, ("cache_reuse",)),
    Hold("llama_cpp@b11549-repaired", ("R", "H", "HW"), REPAIRED),       # including cache_reuse: D4
    Hold("llama_cpp@b11549-repaired", tuple(KINDS), ("survives",)),      # and D21
    *(Hold(profile, ("A",), but("answered") if profile in KEEPS else ALL, KNOWN) for profile in LLAMA),
    Hold("llama_cpp@pr24143-on-b10587", ("A", "W", "R", "H", "HW"), ("no-lost-conversation",)),
    Hold("llama_cpp@pr24143-on-b9518", ("A", "W", "R", "H", "HW"), ("no-lost-conversation",)),
    *(Hold(profile, tuple(KINDS), SOUND) for profile in (
        "llama_cpp@b10587", "llama_cpp@24035-v3", "llama_cpp@b8152", "llama_cpp@b6685",
        "llama_cpp@b6160")),
    *(Hold(profile, ("A", "W", "H"), SOUND) for profile in ("ik_llama@main", "ik_llama@1295")),   # drafts: D5
    *(Hold(profile, tuple(KINDS), ("balances",)) for profile in (
        "llama_cpp@b10587", "llama_cpp@b6160", "ik_llama@main", "mlx_lm@0.32.2", "mlx_lm@pr923")),
    Hold("llama_cpp@24035-v3", ("R", "H"), but("stored-equals-cold"), KNOWN),
    Hold("llama_cpp@24035-v1", ("R", "H"), but("stored-equals-cold"), (*KNOWN, "files")),
    Hold("ik_llama@main", ("A",), but("stored-equals-cold"), ("shift", "slots")),
    Hold("ik_llama@1889-base", ("A",), but("stored-equals-cold"), ("shift", "slots")),
    Hold("mlx_lm@0.32.2-repaired", tuple(KINDS), REPAIRED),
    Hold("ik_llama@main-repaired", tuple(KINDS), ("warm-equals-cold", "survives")),
    Hold("ik_llama@main-repaired", tuple(KINDS), REPAIRED, ("shift",)),      # rows that a shift moves are stored
    Hold("mlx_lm@0.32.2", ("A", "R", "H"), but("survives", "limits"), ("drafts", "think")),
    Hold("mlx_lm@m1072", ("A",), but("survives", "limits"), ("drafts",)),
    Hold("mlx_lm@0.31.1", ("A",), but("survives"), ("drafts", "thinking", "think", "together")),
)


def told(case: DrawnConversation, without: tuple[str, ...]) -> DrawnConversation:
    """Return the conversation without the features of known defects."""
    plain = filled({}, case.engine)
    options = {DEFAULTS[name]: plain[DEFAULTS[name]] for name in without if DEFAULTS.get(name) in plain}
    asked = case.asked
    if "id_slot" in without:
        asked = alike(asked, id_slot=-1)
    if "room" in without and case.server.get("spec_type", "none") != "none":
        needed = int(case.server.get("parallel", 1)) * (int(case.server.get("spec_draft_n_max", 3)) + 1)
        options["batch_size"] = max(int(case.server.get("batch_size", needed)), needed)
    if "completions" in without:
        asked = alike(asked, n_cmpl=1)
    if "together" in without:
        asked = alike(asked, together=False, after=0)
    if "slots" in without:
        options["parallel"] = 1
        asked = alike([one for one in asked if isinstance(one, LineRequest) or one.do == "restart"], id_slot=-1)
    if "files" in without:
        asked = tuple(one for one in asked if isinstance(one, LineRequest))
    if "think" in without:
        asked = tuple(map_step_texts(one, lambda text: tuple(piece for piece in text if piece.word != "THINK"))
                      for one in asked)  # fmt: skip
    return replace(case, server={**case.server, **options}, asked=asked)


def held(hold: Hold, case: DrawnConversation, judges: dict[str, Judge] | None = None) -> list[PropertyFailure]:
    """Return the findings in a conversation that ``told`` has returned. Raise BadInput if it is not supported."""
    try:
        return findings(case, hold.profile, hold.properties, {} if judges is None else judges)
    except BadInput:
        raise
    except Exception as error:          # a failure of the simulator is a finding
        return [crashed(error)]


def unexpected(
    hold: Hold, seed: int, stop: int, start: int = 0
) -> Iterator[tuple[DrawnConversation | None, PropertyFailure]]:
    """Yield the findings in the conversations start .. stop-1 of a seed; None as conversation if drawing it fails."""
    judges: dict[str, Judge] = {}
    engine = hold.profile.partition("@")[0]
    for i in range(start, stop):
        try:
            case = told(draw_conversation(seed * SPREAD + i, engine, hold.models), hold.without)
        except BadInput:
            continue
        except Exception as error:
            yield None, crashed(error)
            continue
        with suppress(BadInput):
            yield from ((case, finding) for finding in held(hold, case, judges))
