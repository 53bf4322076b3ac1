"""What do builds do differently with cells and batches, inside a memory?"""

from __future__ import annotations

from typing import Callable, NamedTuple

from cachesim.engines.llama_cpp.memory.ubatch import Split


def split_any(n_rs_seq: int, attention: bool, unified: bool) -> Split:
    """Equal splits that know nothing of rollback planes."""
    return Split(False, not (attention and unified), 0)


class Habits(NamedTuple):
    """What builds do differently with cells. ``together``: a saved state is read into neighbouring cells, and the
    search for free cells goes on at the first of them. ``purge_stays``: when a batch that was tried out is taken back,
    the cells purged beside those it used stay purged. ``fail_undoes``: a hybrid state whose recurrent part cannot be
    read is given up whole. ``copy_waits``: the rows of a copy between streams are copied by the next decode.
    ``full_forgets``: a window cache of full size, too, takes cells outside of the window for new tokens and leaves them
    out of a saved state. ``shift_dies``: the process ends where cells have moved in a cache without layers. ``split``:
    how a memory with recurrent layers cuts a batch, by its rollback planes, whether it has attention layers too, and
    whether all sequences share one buffer."""

    together: bool = False
    purge_stays: bool = False
    fail_undoes: bool = False
    copy_waits: bool = True
    full_forgets: bool = True
    shift_dies: bool = True
    split: Callable[[int, bool, bool], Split] = split_any
