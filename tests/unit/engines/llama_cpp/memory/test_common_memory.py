"""Target and draft context: what is done to both, and what happens if one refuses."""

from __future__ import annotations

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.context import CommonMemory


class Noted:
    """A memory that notes its calls. ``refuses``: it removes nothing."""

    def __init__(self, refuses=False):
        self.refuses, self.calls = refuses, []

    def seq_rm(self, *place):
        self.calls.append(("rm", *place))
        return not self.refuses

    def seq_cp(self, *place):
        self.calls.append(("cp", *place))

    def seq_add(self, *place):
        self.calls.append(("add", *place))


def test_positions_are_removed_copied_and_moved_in_both():
    both = Noted(), Noted()
    memory = CommonMemory(*both)
    assert memory.rm(1, 5) is True
    memory.must_rm(1, 5, 7)
    memory.seq_cp(1, 2)
    memory.seq_add(1, 5, 9, -2)
    calls = [("rm", 1, 5, POS_INF), ("rm", 1, 5, 7), ("cp", 1, 2), ("add", 1, 5, 9, -2)]
    assert [one.calls for one in both] == [calls, calls]


@pytest.mark.parametrize(("target", "draft", "removed"), [
    (False, False, True), (True, False, False), (False, True, False),
])  # fmt: skip
def test_a_removal_fails_if_one_of_both_refuses(target, draft, removed):
    memory = CommonMemory(Noted(target), Noted(draft))
    assert memory.rm(1, 5) is removed
    if removed:
        memory.must_rm(1, 5)
        return
    with pytest.raises(ProcessAborted, match="failed to remove sequence 1 with p0=5, p1=-1"):
        memory.must_rm(1, 5)
    with pytest.raises(ProcessAborted, match="failed to remove sequence 1 with p0=5, p1=9"):
        memory.must_rm(1, 5, 9)


def test_a_build_may_ignore_a_refused_removal_of_both():
    asked = []
    both = Noted(True), Noted(True)
    CommonMemory(*both, ends=lambda *place: asked.append(place)).must_rm(1, 5, 9)
    assert asked == [(1, 5, 9)] * 2 and [len(one.calls) for one in both] == [1, 1]


def test_without_a_draft_context_there_is_one_memory():
    alone = Noted()
    memory = CommonMemory(alone, None)
    assert memory.all == [alone] and memory.rm(0, 3) and alone.calls == [("rm", 0, 3, POS_INF)]
