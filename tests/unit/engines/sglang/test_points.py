"""Restore points: usable lengths of nodes and states, gained and lost with the rule that decided."""

import pytest

from cachesim.engines.base import Request
from cachesim.events import Gained, Log, Lost


def served(engine, model, *prompts, **flags):
    """Restore points that exist after these prompts, and the events about them."""
    log = Log()
    server = engine.start("sglang@0.5.23", model, flags, "none", log)
    seen, points = [], {}
    log.kinds, log.listener = frozenset((Gained, Lost)), seen.append
    for prompt in prompts:
        server.complete(Request(tuple(map(ord, prompt)), 1, forced=(1,)))
    for event in seen:
        if isinstance(event, Gained):
            points[event.point.key] = event.point
        else:
            del points[event.key]
    server.inspection.check()
    assert set(points) == set(server.inspection.kept())
    return {key[:2]: (point.lo, point.hi) for key, point in points.items()}, seen


def test_a_node_is_usable_at_every_page(engine):
    points, _ = served(engine, "A", "abcdefghij", page_size=4)
    assert points == {("node", 1): (4, 8)}


def test_a_split_loses_nothing(engine):
    points, seen = served(engine, "A", "abcdef", "abcx")
    assert points == {("node", 1): (1, 6), ("node", 2): (1, 3), ("node", 3): (1, 4)}
    assert [event.point.key[1] for event in seen if isinstance(event, Gained)] == [1, 2, 3]


def test_a_window_makes_its_last_tokens_usable(engine):
    points, _ = served(engine, "W4 A", "abcdefghijkl", chunked_prefill_size=8)
    assert points == {("node", 2): (1, 0), ("node", 3): (1, 0), ("node", 1): (7, 8), ("node", 4): (7, 12)}


def test_a_state_is_usable_at_its_end(engine):
    points, _ = served(engine, "GA", "abcdef", "abcdef", mamba_radix_cache_strategy="no_buffer",
                       disable_overlap_schedule=True)  # fmt: skip
    assert points == {("node", 1): (1, 0), ("node", 2): (1, 0), ("state", 1): (6, 6)}


@pytest.mark.parametrize(("model", "flags", "kind", "rule"), [
    ("A", {"max_total_tokens": 24}, Lost, "SG-EVICT-LEAF.WHOLE"),
    ("W4 A", {"swa_tokens": 16}, Gained, "SG-EVICT-INSIDE.RANK"),
    ("GA", {"max_mamba_cache_size": 4, "disable_overlap_schedule": True}, Lost, "SG-EVICT-INSIDE.RANK"),
])  # fmt: skip
def test_a_loss_names_its_rule(engine, model, flags, kind, rule):
    _, seen = served(engine, model, "abcdefgh", "abcdefghij", "klmnopqr", "stuvwxyz", "12345678", **flags)
    assert rule in {event.rule for event in seen if isinstance(event, kind)}
