"""Rules that differ between versions, proposals and devices for recurrent slots: removal of tokens, counters of
padding, memory that a slot keeps alive, rows that it does not have. Columns are tokens."""

from __future__ import annotations

from cachesim.engines.mlx_lm.source_files import CACHE, mlx_lm
from cachesim.engines.rule import Role, rule


@rule("ML-ARRAYS-TRIM.refused", Role.REMOVE, mlx_lm(CACHE, "ArraysCache", "d78bf58e"))
def trim_refused() -> bool:
    """Return False: an ArraysCache is never trimmable."""
    return False


@rule("ML-ARRAYS-TRIM.reset", Role.REMOVE, mlx_lm("", "ArraysCache.trim", "6236c674", pull=1253))
def trim_resets() -> bool:
    """Return True: an ArraysCache counts as trimmable, and a trim by any number of tokens resets it to the initial
    state."""
    return True


@rule("ML-ARRAYS-ADVANCE.step", Role.MEMORY, mlx_lm("mlx_lm/models/qwen3_5.py", "cache.advance", "ed7884cb"))
def advance_by_step() -> bool:
    """Return True: after a step the model advances padding and lengths of each recurrent cache by its columns."""
    return True


@rule("ML-ARRAYS-ADVANCE.never", Role.MEMORY, mlx_lm("mlx_lm/models/qwen3_5.py", "GatedDeltaNet", "73c85504"),
      until="#1024")
def advance_never() -> bool:
    """Return False: padding and lengths stay as before the step, so the next step hides its first columns, too."""
    return False


@rule("ML-ARRAYS-KEEP.copied", Role.MEMORY, mlx_lm("mlx_lm/models/qwen3_next.py", "cache[0]", "9dcefa52"),
      since="#1077")
def keep_copied(gated: bool) -> bool:
    """True if the kept inputs of a convolution are a view that keeps every column of the step in memory: not in
    a gated delta net (``gated``), which copies them."""
    return not gated


@rule("ML-ARRAYS-KEEP.view", Role.MEMORY, mlx_lm("mlx_lm/models/qwen3_next.py", "cache[0]", "321e764e"),
      until="#1077")
def keep_view(gated: bool) -> bool:
    """Return True: the kept inputs of a convolution are a view of the array that joins the inputs before the step and
    those of the step, and keep all of it in memory."""
    return True


@rule("ML-ARRAYS-ROW.asked", Role.MEMORY, mlx_lm(CACHE, "ArraysCache.filter", "3f9d179f"))
def row_asked(index: int, rows: int) -> int:
    """Return the row that a filter reads in place of one that the state does not have: that row. Its content is
    undefined (on the CPU it is other memory), so that the run ends."""
    return index


@rule("ML-ARRAYS-ROW.wrapped", Role.MEMORY, mlx_lm("", "ArraysCache.filter", "3f9d179f", pull=1169,
                                                   note="read: the device does this, as the report says"))
def row_wrapped(index: int, rows: int) -> int:
    """Return the row that a filter reads in place of one that the state does not have: its number modulo the rows of
    the state, as #1169 reports of Metal."""
    return index % rows
