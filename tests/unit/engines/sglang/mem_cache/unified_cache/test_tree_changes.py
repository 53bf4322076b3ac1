"""Changes of the tree are kept until they are reported."""

from __future__ import annotations

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache.tree_events import BackedUp
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.tree_changes import LostPart, TreeChanges
from cachesim.events import Decided


def test_changes_are_kept_in_their_order_until_they_are_cleared() -> None:
    changes = TreeChanges()
    first, second = object(), object()
    assert changes.decide(Decision(7, {"n": 1}, rule="R", case="c")) == 7
    changes.record(BackedUp(3, 4))
    for node in (second, first, second):
        changes.touch(node)  # type: ignore[arg-type]
    changes.lose(first, SWA, "R")  # type: ignore[arg-type]
    changes.lose(second, FULL, "")  # type: ignore[arg-type]
    assert changes.events == [Decided(None, "R", 7, because={"n": 1}, case="c"), BackedUp(3, 4)]
    assert [*changes.touched] == [second, first]
    assert changes.lost == [LostPart(first, SWA, "R"), LostPart(second, FULL, "")]  # type: ignore[arg-type]
    changes.clear()
    assert (changes.events, changes.touched, changes.lost) == ([], {}, [])
