"""What may the memory refuse, and what does a saved state contain?

Source: llama.cpp src/llama-memory-recurrent.cpp seq_rm, src/llama-kv-cache.cpp state_write (3f545be); spec 2.3, 2.6.
"""

from __future__ import annotations

import numpy as np

from cachesim.engines.base import Decision, rule


@rule("LC-RS-RM.RM3")
def rs_rm_3(pos: int, p0: int, p1: int) -> Decision:
    """A recurrent state refuses a cut that takes off its end but keeps a beginning. Value: refused?
    (With rollback planes it goes back a few tokens instead; a context without them has none.)
    Source: llama.cpp src/llama-memory-recurrent.cpp seq_rm (3f545be), since #17009 (b7011), planes since #22673."""
    return Decision("LC-RS-RM.RM3", 0 < p0 <= pos < p1, {"pos": pos, "p0": p0, "p1": p1})


@rule("LC-KV-STATE.WINDOW")
def keep_window(pos: np.ndarray, pos_max: int, n_swa: int) -> Decision:
    """A saved window cache contains only what a query at pos_max still sees. Value: mask over the cells.
    Source: llama.cpp src/llama-kv-cache.cpp state_write (3f545be), since #23981 (b9473)."""
    return Decision("LC-KV-STATE.WINDOW", pos_max - pos < n_swa, {"pos_max": pos_max, "n_swa": n_swa})
