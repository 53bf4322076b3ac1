"""Slot files: the checkpoints that they contain besides tokens and state.

Source: llama.cpp tools/server/server-context.cpp, save_slot_checkpoints, load_slot_checkpoints.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-SLOT-FILE.BARE", Role.WRITE_FILE,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_SAVE {" '
                '"case SERVER_TASK_TYPE_SLOT_RESTORE {"',
                "3f545be"), until="b11549")
def no_checkpoints(n: int, limit: int) -> Decision:
    """Returns the indices of the checkpoints that a slot file contains: none."""
    return Decision((), {"n": n, "max": limit})


# [New in llama_cpp@b11549]
@rule("LC-SLOT-FILE.SCKP", Role.WRITE_FILE,
      llama_cpp(CONTEXT, "save_slot_checkpoints, load_slot_checkpoints", "b11549", pull=26004), since="b11549")
def newest_checkpoints(n: int, limit: int) -> Decision:
    """Returns the indices of the checkpoints that a slot file contains: all; on restore the newest, up to the limit."""
    return Decision(tuple(range(max(0, n - limit), n)), {"n": n, "max": limit})
