"""Slot save, restore and erase.

Source: ik_llama.cpp examples/server/server-context.cpp (8337e4cd3); spec 3.6.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.engines.ik_llama.core import Core
from cachesim.errors import BadInput
from cachesim.tokens import POS_INF


def slot_action(srv: Core, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
    """Do one action on an idle slot; returns what the server answers. Raises BadInput."""
    if not 0 <= id_slot < len(srv.slots):
        raise BadInput(f"there is no slot {id_slot}", hint=f"0 to {len(srv.slots) - 1}")
    slot = srv.slots[id_slot]
    if action == "erase":
        n_erased = len(slot.tokens)
        srv.memory.seq_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        slot.checkpoints.clear()
        srv.changed(slot, "cleared", "")
        return {"status": 200, "n_erased": n_erased}
    raise BadInput(f"slot action '{action}' is not modelled for this engine", hint="erase")
