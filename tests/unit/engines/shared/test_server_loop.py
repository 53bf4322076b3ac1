"""State of a server that works in rounds: decisions, tasks, slots, and reports of changed slots."""


import numpy as np

from cachesim.engines.server_parts import Removal
from cachesim.engines.shared.server_loop import (
    observe_seq_rm,
)


def test_a_removal_is_observed_with_the_positions_before_and_after():
    held, seen = {0: [0, 1, 2, 3]}, []

    def remove(seq, p0, p1):
        if p0 == 1:
            return 0
        held[seq] = [pos for pos in held[seq] if not p0 <= pos < p1]
        return 1

    observed = observe_seq_rm(remove, lambda seq: np.array(held[seq]), seen.append)
    assert observed(0, 2) is True and observed(0, 1, 2) is False
    first, second = (one._replace(before=one.before.tolist(), after=one.after.tolist()) for one in seen)
    assert (first.seq, first.p0, first.ok, first.before, first.after) == (0, 2, True, [0, 1, 2, 3], [0, 1])
    assert second == Removal(0, 1, 2, False, [0, 1], [0, 1]) and first.p1 > 2**30
