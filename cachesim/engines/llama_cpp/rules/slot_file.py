"""Slot files: the checkpoints that they contain besides tokens and state, and files that end too early.

Source: llama.cpp tools/server/server-context.cpp, save_slot_checkpoints, load_slot_checkpoints.
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import CONTEXT, KV_CACHE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-SLOT-FILE.BARE", Role.WRITE_FILE,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_SAVE {" '
                '"case SERVER_TASK_TYPE_SLOT_RESTORE {"',
                "3f545be"), until="b11549")
def no_checkpoints(n: int, limit: int) -> Decision:
    """Return the indices of the checkpoints that a slot file contains: none."""
    return Decision((), {"n": n, "max": limit})


# [New in llama_cpp@b11549]
@rule("LC-SLOT-FILE.SCKP", Role.WRITE_FILE,
      llama_cpp(CONTEXT, "save_slot_checkpoints, load_slot_checkpoints", "b11549", pull=26004), since="b11549")
def newest_checkpoints(n: int, limit: int) -> Decision:
    """Return the indices of the checkpoints that a slot file contains: all; on restore the newest, up to the limit."""
    return Decision(tuple(range(max(0, n - limit), n)), {"n": n, "max": limit})


@rule("LC-FILE-EMPTY.STAYS", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_RESTORE {"', "3f545be"))
def empty_stays(held: int) -> Decision:
    """Return False: if the file of an empty slot is restored, the slot has no tokens, but keeps its cells until its
    next request. It is not purged for lack of free cells, because it has no tokens."""
    return Decision(False, {"held": held})


# [New in llama_cpp@b11549-repaired]
@rule("LC-FILE-EMPTY.CLEARED", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_RESTORE {"', "b11549",
                note="proposed here: prompt_clear() if the restored list is empty"))
def empty_clears(held: int) -> Decision:
    """Return True: a slot is cleared if the file of an empty slot is restored."""
    return Decision(True, {"held": held})


STAYS = "stays"
FREED = "freed"
ENDS = "ends"

MMAP = "src/llama-mmap.cpp"


@rule("LC-FILE-TORN.ENDS", Role.FAIL,
      llama_cpp(MMAP, 'read_raw_unsafe "to_read", src/llama-context.cpp state_seq_load_file "nread <= state_size"',
                "b11549", pull=18801, note="seen on the real b11549 (xllamacpp 2026.10.11549, Linux)"),
      since="#18801 (b7725)")
def torn_ends(part: str, last: bool) -> Decision:
    """Return "ends" if a slot file ends within the last rows of its state: reads after the end of the file do not
    fail, so every row seems to be read, and then the check of the size ends the process. Return "stays" if it ends
    earlier: the server reads uninitialised fields of the next part, and the real b11549 refused them. On Windows such a
    read fails."""
    return Decision(ENDS if last else STAYS, {"part": part, "last": last})


# [Gone in llama_cpp@b7789]
@rule("LC-FILE-TORN.STAYS", Role.FAIL,
      llama_cpp(KV_CACHE, "llama_kv_cache::state_read", "b9765", pull=8699,
                note="an exception passes it; seen on the real b6740"),
      since="#8699 (b3483)", until="#18801 (b7725)")
def torn_stays(part: str, last: bool) -> Decision:
    """Return "stays": if a slot file ends within the rows of a part, the file is refused, but the cells that were
    assigned before the rows were read still belong to the slot, whose next request removes them."""
    return Decision(STAYS, {"part": part, "last": last})


# [New in llama_cpp@b11549-proposed]
@rule("LC-FILE-TORN.FREED", Role.FAIL,
      llama_cpp(KV_CACHE, 'llama_kv_cache::state_read "catch (...)"', "b11549", pull=26051,
                note="on Windows only: on Linux nothing throws since #18801"))
def torn_freed(part: str, last: bool) -> Decision:
    """Return "freed": if a slot file ends within the rows of a part, the file is refused, and the part is empty. So on
    Windows since #26051 (b10116); proposed for Linux, where reads after the end of the file must fail."""
    return Decision(FREED, {"part": part, "last": last})


# [Gone in llama_cpp@b3642]
@rule("LC-FILE-TORN.BUFFER", Role.FAIL,
      llama_cpp("llama.cpp", "llama_state_seq_load_file_internal", "6ecf3189e"), until="#8699 (b3483)")
def torn_buffer(part: str, last: bool) -> Decision:
    """Return "ends": if a slot file ends within rows, the server reads on after the buffer that holds the file, and
    then the check of the size ends the process. Read, not run."""
    return Decision(ENDS, {"part": part, "last": last})
