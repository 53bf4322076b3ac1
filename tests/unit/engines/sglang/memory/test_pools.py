"""Window slots follow their slots."""

import numpy as np

from cachesim.engines.sglang.memory.pools import KvPools


def test_window_slots_are_freed_once():
    kv = KvPools(1, 8, 6)
    slots = kv.extend(-1, 0, 4)
    kv.free_window(slots[:2])
    assert (kv.full.available, kv.window.available) == (4, 4)
    kv.free(slots)
    assert (kv.full.available, kv.window.available) == (8, 6) and not kv.peer[slots].any()


def test_window_slots_move_to_kept_slots():
    kv = KvPools(1, 8, 8)
    old, fresh = kv.extend(-1, 0, 2), kv.extend(-1, 0, 2)
    kv.free_window(old)
    window = kv.peer[fresh].tolist()
    assert kv.move_window(old, fresh).tolist() == window == kv.peer[old].tolist()
    assert not np.any(kv.peer[fresh])
