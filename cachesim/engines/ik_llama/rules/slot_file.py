"""Slot files: contents that are saved and restored, and the effect of erasing a slot.

side file   the checkpoints, beside the file of tokens and state: positions and states, without the number of tokens
Source: ik_llama.cpp examples/server/server-context.cpp, slot save, restore and erase (8337e4cd3).
"""

from __future__ import annotations

from cachesim.engines.ik_llama.source_files import CONTEXT, ik_llama
from cachesim.engines.rule import Decision, Role, rule


@rule("IK-SLOT-SAVE.SIDE-FILE", Role.WRITE_FILE, ik_llama(CONTEXT, "slot save", "8337e4cd3"), since="#1584")
def save_side_file(ckpts: int) -> Decision:
    """True if checkpoints are written to a side file: if there are any. Otherwise a side file that an earlier
    conversation left under this name stays."""
    return Decision(ckpts > 0, {"ckpts": ckpts})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-SAVE.STATE-ONLY", Role.WRITE_FILE, ik_llama(CONTEXT, "slot save"), until="#1584 (5e8bb724c)")
def save_state_only(ckpts: int) -> Decision:
    """Return False: checkpoints are not saved."""
    return Decision(False, {"ckpts": ckpts})


@rule("IK-SLOT-RESTORE.SIDE-FILE", Role.READ_FILE, ik_llama(CONTEXT, "slot restore", "8337e4cd3"), since="#1584")
def restore_side_file(there: bool) -> Decision:
    """True if the slot's checkpoints are replaced by those of the side file of this name: if it exists,
    regardless of its origin; otherwise the slot keeps its own. The file does not contain their n_tokens."""
    return Decision(there, {"there": there})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-RESTORE.STATE-ONLY", Role.READ_FILE, ik_llama(CONTEXT, "slot restore"), until="#1584 (5e8bb724c)")
def restore_state_only(there: bool) -> Decision:
    """Return False: no side file is read, and the slot keeps its checkpoints."""
    return Decision(False, {"there": there})


@rule("IK-SLOT-ERASE.ALL", Role.DROP, ik_llama(CONTEXT, "slot erase", "8337e4cd3"), since="#1584")
def erase_all(ckpts: int) -> Decision:
    """Return True: erasing a slot also erases its checkpoints."""
    return Decision(True, {"ckpts": ckpts})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-ERASE.TOKENS", Role.DROP, ik_llama(CONTEXT, "slot erase"), until="#1584 (5e8bb724c)")
def erase_tokens(ckpts: int) -> Decision:
    """Return False: erasing a slot leaves its checkpoints, until its next prompt is compared with them."""
    return Decision(False, {"ckpts": ckpts})
