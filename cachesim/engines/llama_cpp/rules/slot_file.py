"""What does a slot file carry besides tokens and state?

Source: llama.cpp tools/server/server-context.cpp, save_slot_checkpoints, load_slot_checkpoints; spec 3.15.
"""

from __future__ import annotations

from cachesim.engines.base import Decision, rule


@rule("LC-SLOT-FILE.BARE")
def no_checkpoints(n: int, limit: int) -> Decision:
    """A slot file carries no checkpoints. Value: which of n, by index, are written or come back.
    Source: llama.cpp tools/server/server-context.cpp process_single_task "case SERVER_TASK_TYPE_SLOT_SAVE {"
    "case SERVER_TASK_TYPE_SLOT_RESTORE {" (3f545be), before b11549."""
    return Decision("LC-SLOT-FILE.BARE", (), {"n": n, "max": limit})


# [New in llama_cpp@b11549]
@rule("LC-SLOT-FILE.SCKP")
def newest_checkpoints(n: int, limit: int) -> Decision:
    """A slot file carries every checkpoint; where fewer are allowed, the oldest are dropped.
    Source: llama.cpp tools/server/server-context.cpp save_slot_checkpoints, load_slot_checkpoints (b11549);
    ggml-org/llama.cpp#26004."""
    return Decision("LC-SLOT-FILE.SCKP", tuple(range(max(0, n - limit), n)), {"n": n, "max": limit})
