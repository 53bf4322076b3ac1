"""Soundness of the block pool, and judging of shared blocks, preempted requests and broken promises."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Request
from cachesim.engines.shared.kv_rows import write_rows
from cachesim.events import Gained, Lost
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.model import KVRows
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import simpler
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import LineRequest
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.search.drawn_conversation import case_of, draw_conversation

NEW, OLD = "blockpool@0.33.0", "blockpool@0.15.1"
TWINS = "A36.B9/A.C9{together}"
CROWD = "A20>r8/B22>s16{together}/B.s"


def scenario(line, model="GA", **server):
    return from_line(line, model=model, profiles=(NEW,), server=server)


def events(run, ev):
    return [one for one in run.log.events if one.ev == ev]


def test_a_request_that_is_put_back_says_what_a_cold_run_says(engine):
    run = run_judged(scenario(CROWD, block_size=4, num_gpu_blocks=18), NEW)
    assert run.verdict.equal_cold, run.verdict
    assert [one.n_tokens for one in events(run, "preempted")] == [28] and len(events(run, "launch")) == 4
    assert [one.answer.cache_n for one in run.requests] == [0, 0, 28]
    assert [len(one.answer.outputs) for one in run.requests] == [8, 16, 1], "no token gets two outputs"
    charges = [(one.tokens, one.event, one.rule) for one in run.requests[2].ledger.charges]
    assert charges == [(9, "never captured", "BP-RETAIN.BOUNDARY")]


def test_a_block_that_is_used_again_is_charged_to_the_eviction(engine):
    ledger = run_judged(scenario(CROWD, block_size=4, num_gpu_blocks=19), NEW).requests[2].ledger
    assert [(one.tokens, one.event, one.rule) for one in ledger.charges] == [
        (17, "never captured", "BP-RETAIN.BOUNDARY"), (20, "evicted", "BP-EVICT.FRONT"),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("blocks", [40, 17, 16])
@pytest.mark.parametrize("model", ["A", "GA", "GGGA", "CA", "H", "S"])
def test_bits_and_bills(engine, model, blocks):
    line = "A20>r9/A.r.B5>s9/C22>t9{together}/A.r.B.s.D3/C.t.A{together+1}/C.t.A"
    run = run_judged(scenario(line, model, block_size=4, num_gpu_blocks=blocks), NEW)
    assert run.verdict.equal_cold, run.verdict
    assert not any(one.judged.armed for one in run.requests)
    assert all(one.ledger.is_balanced for one in run.requests)


def test_a_state_that_was_only_promised_is_read(engine):
    assert run_judged(scenario(TWINS), OLD).broken == [1]
    assert run_judged(scenario(TWINS), NEW).broken == []


def test_blocks_of_pure_attention_are_restore_points_at_their_ends(engine):
    run = run_judged(scenario("A20>r1/A.B5/A[:7].C9", "A", block_size=4), NEW)
    assert [(one.ledger.best, one.ledger.held, one.answer.cache_n) for one in run.requests] == [
        (0, 0, 0), (20, 20, 20), (7, 4, 4),
    ]  # fmt: skip


def served(engine, *prompts, model="A", rules=NEW, **flags):
    server = engine.start(rules, model, {"block_size": 4, **flags}, "exact")
    server.points_told = told = {}

    def hear(event):
        if isinstance(event, Gained):
            told[event.point.key] = event.point
        elif isinstance(event, Lost):
            del told[event.key]

    server.log.listener = hear
    for prompt in prompts:
        server.complete(Request(tuple(prompt)))
    return server


def test_a_block_that_two_share_is_one_object(engine):
    server = served(engine, range(14), [*range(9), *range(50, 58)])
    kept = [server.inspection.stored(key) for key in server.inspection.kept()]
    assert [(one.start, one.resume) for one in kept] == [(0, 4), (4, 8), (8, 12), (8, 12), (12, 16)]
    assert {one.tokens for one in kept} == {tuple(range(14)), (*range(9), *range(50, 58))}
    points = [server.points_told[key] for key in server.inspection.kept()]
    assert [(one.start, one.lo, one.hi, one.after and one.after[1]) for one in points] == [
        (0, 4, 4, None), (4, 8, 8, 1), (8, 12, 12, 2), (8, 12, 12, 2), (12, 16, 16, 4),
    ]  # fmt: skip


def test_what_goes_on_from_a_lost_block_is_of_no_use_until_it_is_there_again(engine):
    server = served(engine, range(18), num_gpu_blocks=8)
    first = server.inspection.kept()[0]
    server.points.lost(first, "evicted", "BP-EVICT.FRONT")
    assert [(one.lo, one.hi) for one in server.points_told.values()] == [(1, 0)] * 3
    chain = import_module("blockpool.point_tracker").Chain(server.slots[0].chain[0], None, (0, 1, 2, 3), 4)
    server.points.rows(("block", 7, 0), chain)
    assert sorted((one.lo, one.hi) for one in server.points_told.values()) == [(n, n) for n in (4, 8, 12, 16)]


def test_a_foreign_row_in_a_shared_block_is_found_once(engine):
    server = served(engine, range(14), [*range(9), *range(50, 58)])
    judge = Judge(server.model)
    assert all(judge.stored(one).equal_cold for one in map(server.inspection.stored, server.inspection.kept()))
    hurt = server.inspection.stored(server.inspection.kept()[1])
    at = hurt.owner * 4 + 2
    foreign = server.memory.rows[0].digest[at : at + 1] + np.uint64(1)
    write_rows(server.memory.rows, 0, slice(at, at + 1), KVRows(foreign, None, None))
    kept = [server.inspection.stored(key) for key in server.inspection.kept()]
    wrong = [(one.start, verdict.where) for one in kept if not (verdict := judge.stored(one)).equal_cold]
    assert wrong == [(4, 6)]


def test_looking_changes_nothing_and_a_fork_goes_its_own_way(engine):
    server = served(engine, range(30), model="GA")
    queue, told = list(server.pool.free), len(server.log.events)
    assert server.inspection.kept() and server.inspection.checkpoints(0) == [28]
    assert (list(server.pool.free), len(server.log.events)) == (queue, told)
    twin = server.fork()
    twin.complete(Request(tuple(range(40))))
    assert list(server.pool.free) == queue and server.inspection.n_slots == 1 and twin.inspection.n_slots == 2
    twin.inspection.check()


def test_what_can_be_found_is_used_again_last_and_of_a_prompt_its_end_first(engine):
    server = served(engine, range(9), num_gpu_blocks=8)
    assert [server.pool.tokens[i] if server.pool.keys(i) else None for i in server.pool.free] == [
        None, None, None, None, None, 8, 4,
    ]  # fmt: skip
    everywhere = replace(engine.rules(NEW), name="blockpool@back", side=lambda hashed: "back")
    server = served(engine, range(9), num_gpu_blocks=8, rules=everywhere)
    assert [bool(server.pool.keys(i)) for i in server.pool.free] == [False] * 5 + [True] * 2


def test_a_count_that_is_wrong_is_noticed(engine):
    from cachesim.base.errors import Crash

    server = served(engine, range(9))
    server.pool.refs[1] += 1
    with pytest.raises(Crash):
        server.inspection.check()


@pytest.mark.parametrize("flags, why", [
    ({"num_gpu_blocks": 3}, "at least 4"), ({"block_sise": 3}, "unknown server flag"),
    ({"prefix_cache_retention_interval": 9}, "multiple of block_size"), ({"block_size": 0}, "at least 1"),
    ({"max_model_len": 100, "num_gpu_blocks": 20, "block_size": 4}, "do not hold one request"),
])  # fmt: skip
def test_bad_options_are_refused(engine, flags, why):
    with pytest.raises(BadInput, match=why):
        engine.start(NEW, "GA", {"block_size": 4, **flags}, "none")
    with pytest.raises(BadInput, match="windows"):
        engine.start(NEW, "W8 A", {}, "none")


def test_a_prompt_that_is_too_long_is_refused(engine):
    server = engine.start(NEW, "GA", {"block_size": 4, "num_gpu_blocks": 8}, "none")
    answer = server.complete(Request(tuple(range(20))))
    assert (answer.status, answer.error_kind, answer.done) == (400, "prompt-too-long", True)
    answer = server.complete(Request(tuple(range(16)), n_predict=50))
    assert (answer.status, answer.predicted_n) == (200, 4)


def test_requests_of_other_salts_share_nothing(engine):
    run = run_judged(scenario("A20/A.B4{cache_salt=x}/A.C4{cache_salt=x}/A.D4{cache_salt=y}", "A", block_size=4), NEW)
    assert [one.answer.reused for one in run.requests] == [{"block": n} for n in (0, 0, 20, 0)]
    with pytest.raises(BadInput, match="cache_salt: 4 must be a text"):
        scenario("A20{cache_salt=4}")
    with pytest.raises(BadInput, match="not supported by this engine: cache_salt"):
        run_judged(from_line("A20{cache_salt=x}", model="A", profiles=("llama_cpp@b10587",)), "llama_cpp@b10587")


def test_a_field_of_this_engine_goes_through_a_file_and_back(engine, tmp_path):
    line = "A20/A.B4{cache_salt=x}"
    case = case_of(scenario(line, "A"))
    text = to_toml({"id": "x", "engine": "blockpool", "model": "A"}, {}, case.words, case.asked)
    assert 'cache_salt = "x"' in text and spell(case.line) == line
    steps = [step for seed in range(40) for step in draw_conversation(seed, "blockpool").asked]
    drawn = {dict(step.extra).get("cache_salt") for step in steps if isinstance(step, LineRequest)}
    assert drawn == {None, "x", "y"}
    assert all(not step.extra for smaller in simpler(ShrinkCase(case.line)) for step in smaller.line.steps[1:]
               if step.prompt == case.asked[1].prompt and step != case.asked[1])  # fmt: skip


def test_every_rule_has_a_sentence(engine):
    run = run_judged(scenario(CROWD, block_size=4, num_gpu_blocks=17), NEW, "provenance")
    said = [engine.say(one.rule, one.value, one.because) for one in events(run, "decided")]
    assert len(said) > 40 and None not in said
