"""Steps that overlap: the next one is launched before the results of the one before are processed."""

import pytest

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line

A, B = tuple(range(100, 120)), tuple(range(200, 220))


def start(model="A", profile="sglang@0.5.23", **flags):
    return ENGINE.start(profile, model, flags, "provenance")


def turns(server):
    return [(event.op, event.run, event.finished) for event in server.log.events if isinstance(event, SchedulerStep)]


def tokens(server):
    return sum(len(node.key) for node in server.scheduler.tree_cache.tree_core.nodes())


def test_results_are_processed_behind_the_next_step():
    server = start()
    server.complete(Request(A, 3))
    assert turns(server) == [("prefill", [[0, 0, 20]], []), ("decode", [[0, 20, 21]], []),
                             ("decode", [[0, 21, 22]], []), ("none", [], [0])]  # fmt: skip
    server.inspection.check()


def test_a_request_takes_part_in_a_step_after_its_last_token():
    answer = tuple(range(7, 12))
    server = start()
    found = server.complete(Request(A, 9, forced=answer, eog=(11,)))
    assert [run for op, run, _ in turns(server) if op == "decode"][-1] == [[0, 24, 25]]
    assert found.tokens == list(answer) and len(found.outputs) == 5 and found.slot_tokens == (*A, *answer[:-1])
    assert tokens(server) == 25, "its last token was evaluated, too"


@pytest.mark.parametrize(("profile", "kept"), [("sglang@0.5.23", 24), ("sglang@0.5.20", 25), ("sglang@0.5.9", 25)])
def test_a_length_that_is_known_before_saves_that_step_since_0_5_23(profile, kept):
    server = start(profile=profile)
    server.complete(Request(A, 5))
    assert tokens(server) == kept


def test_the_next_chunk_starts_before_the_last_one_is_known():
    server = start(chunked_prefill_size=8)
    server.complete(Request(A, 2))
    assert [run for _, run, _ in turns(server)] == [[[0, 0, 8]], [[0, 8, 16]], [[0, 16, 20]], [[0, 20, 21]], []]


def test_the_token_on_its_way_is_dropped_by_a_retraction():
    server = start(max_total_tokens=64, new_token_ratio=0.0)
    answers = [server.submit(Request(prompt, 20)) for prompt in (A, B)]
    while server.working:
        server.iterate()
        server.inspection.check()
    events = [event for event in server.log.events if isinstance(event, SchedulerStep)]
    (gone,) = [event.retracted for event in events if event.retracted]
    alone = start().complete(Request((A, B)[gone[0]], 20))
    assert answers[gone[0]].tokens == alone.tokens
    assert [one.digest for one in answers[gone[0]].outputs] == [one.digest for one in alone.outputs]


def test_room_that_a_last_token_frees_spares_a_retraction():
    server = start(max_total_tokens=48, new_token_ratio=0.0, page_size=1)
    for prompt, n in ((A, 4), (B, 4)):
        server.submit(Request(prompt, n))
    while server.working:
        server.iterate()
    assert not any(event.retracted for event in server.log.events if isinstance(event, SchedulerStep))


@pytest.mark.parametrize("strategy", ["extra_buffer", "extra_buffer_lazy"])
@pytest.mark.parametrize("drafts", ["", "NGRAM"])
def test_tracked_states_are_those_of_their_prefixes(strategy, drafts):
    server = {"mamba_radix_cache_strategy": strategy, "mamba_track_interval": 8, "state_grid": 4,
              "speculative_algorithm": drafts}  # fmt: skip
    case = from_line("A20>a19{draft_else=3}/A.a.q2/A.a.B9>b6/A.a.B.b.q2", model="GA", profiles=("sglang@0.5.23",),
                     server=server)  # fmt: skip
    run = run_judged(case, "sglang@0.5.23", "exact")
    assert not run.broken and run.requests[1].answer.cache_n == 32


def test_a_pair_of_drafts_in_flight_can_overwrite_a_tracked_state():
    """Both steps are given the same slot, because the first one's results are not known yet."""
    server = {"mamba_radix_cache_strategy": "extra_buffer", "mamba_track_interval": 4, "state_grid": 4,
              "speculative_algorithm": "NGRAM"}  # fmt: skip
    case = from_line("A20>a7{draft_else=3}/A.a.q2", model="GA", profiles=("sglang@0.5.23",), server=server)
    assert run_judged(case, "sglang@0.5.23", "provenance").broken
