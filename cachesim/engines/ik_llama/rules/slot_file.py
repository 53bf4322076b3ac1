"""What of a slot goes into a file, what comes back, and what does erasing it leave?

side file   the checkpoints, beside the file of tokens and state: positions and states, not how many tokens were held
Source: ik_llama.cpp examples/server/server-context.cpp, slot save, restore and erase (8337e4cd3); spec 3.6, 8 (#1584).
"""

from __future__ import annotations

from cachesim.engines.base import Decision, rule


@rule("IK-SLOT-SAVE.SIDE-FILE")
def save_side_file(ckpts: int) -> Decision:
    """The checkpoints are written to a side file, if there are any: where there are none, a side file that an earlier
    conversation left under this name stays. Value: is one written?
    Source: ik_llama.cpp examples/server/server-context.cpp, slot save (8337e4cd3), since #1584; spec 3.6, D9."""
    return Decision("IK-SLOT-SAVE.SIDE-FILE", ckpts > 0, {"ckpts": ckpts})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-SAVE.STATE-ONLY")
def save_state_only(ckpts: int) -> Decision:
    """Checkpoints are not saved.
    Source: ik_llama.cpp examples/server/server-context.cpp, slot save, until #1584 (5e8bb724c); spec 8."""
    return Decision("IK-SLOT-SAVE.STATE-ONLY", False, {"ckpts": ckpts})


@rule("IK-SLOT-RESTORE.SIDE-FILE")
def restore_side_file(there: bool) -> Decision:
    """Checkpoints come from the side file of this name, whoever wrote it; how many tokens each of them had does not
    come with it. Value: is it read?
    Source: ik_llama.cpp examples/server/server-context.cpp, slot restore (8337e4cd3), since #1584; spec 3.6, D8, D9."""
    return Decision("IK-SLOT-RESTORE.SIDE-FILE", there, {"there": there})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-RESTORE.STATE-ONLY")
def restore_state_only(there: bool) -> Decision:
    """No side file is looked for.
    Source: ik_llama.cpp examples/server/server-context.cpp, slot restore, until #1584 (5e8bb724c); spec 8."""
    return Decision("IK-SLOT-RESTORE.STATE-ONLY", False, {"there": there})


@rule("IK-SLOT-ERASE.ALL")
def erase_all(ckpts: int) -> Decision:
    """A slot that is erased loses its checkpoints too. Value: does it?
    Source: ik_llama.cpp examples/server/server-context.cpp, slot erase (8337e4cd3), since #1584; spec 3.6, 8."""
    return Decision("IK-SLOT-ERASE.ALL", True, {"ckpts": ckpts})


# [Gone in ik_llama@1673]
@rule("IK-SLOT-ERASE.TOKENS")
def erase_tokens(ckpts: int) -> Decision:
    """A slot that is erased keeps its checkpoints until its next prompt looks at them.
    Source: ik_llama.cpp examples/server/server-context.cpp, slot erase, until #1584 (5e8bb724c); spec 8."""
    return Decision("IK-SLOT-ERASE.TOKENS", False, {"ckpts": ckpts})
