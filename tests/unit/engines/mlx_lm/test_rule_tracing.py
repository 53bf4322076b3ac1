"""Tests of the log of inner rules: each answer once per request."""

from __future__ import annotations

import numpy as np

from cachesim.engines.mlx_lm.lru import LRU_HEAD
from cachesim.engines.mlx_lm.server_state import RuleTracer
from cachesim.events import Decided, Log
from tests.unit.engines.mlx_lm.serving import burst, server, text


def told(log):
    return [(event.rule, event.value) for event in log.events if isinstance(event, Decided)]


def test_a_rule_is_told_once_for_each_answer_and_request():
    log = Log()
    tracer = RuleTracer(log)
    log.mark()
    for value in (True, True, False):
        tracer.record("A", value)
    tracer.record("B", True)
    log.mark()
    tracer.record("A", True)
    assert told(log) == [("A", True), ("A", False), ("B", True), ("A", True)]


def test_of_a_mask_it_is_told_whether_it_hides_something():
    log = Log()
    tracer = RuleTracer(log)
    for value in (np.array([True, True]), np.array([True, False]), np.array([1, 2]), object()):
        tracer.record("A", value)
    assert [value for _, value in told(log)] == [False, True, None]      # an array is not a mask; objects say nothing


def test_a_traced_table_decides_the_same_and_keeps_what_is_no_rule():
    log = Log()
    traced = RuleTracer(log).traced(LRU_HEAD)
    assert traced.kinds == LRU_HEAD.kinds and traced.keep(9, 9) == LRU_HEAD.keep(9, 9) == 8
    assert told(log) == [(LRU_HEAD.keep.rule, 8)] and traced.keep.rule == LRU_HEAD.keep.rule


def test_a_request_tells_of_masks_and_of_the_prompt_cache():
    one = server("d78bf58e")
    burst(one, text(1, 2, 3), text(1, 2, 3, 4, 5))
    rules = {rule for rule, _ in told(one.log)}
    assert {"ML-ARRAYS-MASK.padding", "ML-LRU-PREFIX.all", "ML-SEG-REST.INDEX"} <= rules


def test_the_rules_of_a_copied_server_are_logged_by_the_copy():
    one = server()
    burst(one, text(1, 2, 3))
    copy = one.fork()
    before = told(one.log)
    burst(copy, text(1, 2, 4))
    new = told(copy.log)[len(before) :]
    assert told(one.log) == before
    assert {"ML-LRU-EXACT.stored", "ML-LRU-SHORTER", "ML-LRU-PREFIX.all"} <= {rule for rule, _ in new}
