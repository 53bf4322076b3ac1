"""Lookups of the block pool compared with vLLM 0.33.0's managers, for full attention plus a recurrent state.

The numbers were measured once in vLLM, with blocks of four tokens: for each request of a sequence the number of tokens
found, and the length that the rows alone would have reached if it is larger (0 = not larger).
"""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request

DENSE = -1
A = tuple(range(100, 122))                                 # 22 tokens
B = tuple(range(300, 322))
REPLY = tuple(range(500, 515))
P2 = (*A, *REPLY, *range(600, 605))                        # the next turn
A24 = (*A, 1, 2)


def branch(k):
    """A prompt that leaves A after 13 tokens."""
    return (*A[:13], *range(1000 * k, 1000 * k + 9))


def turns(n):
    """n turns of a conversation, each with a reply of 15 tokens and 5 new tokens."""
    prompt, found = A, []
    for turn in range(n):
        reply = tuple(range(5000 + 100 * turn, 5015 + 100 * turn))
        found.append((prompt, reply))
        prompt = (*prompt, *reply, *range(7000 + 100 * turn, 7005 + 100 * turn))
    return found


def found(engine, sequence, **flags):
    """(tokens found, junction) for each request; without a reply, it generates a single token."""
    server = engine.start("blockpool@0.33.0", "GA", {"block_size": 4, **flags}, "none")
    out = []
    for prompt, reply in (one if isinstance(one[0], tuple) else (one, ()) for one in sequence):
        answer = server.complete(Request(prompt, n_predict=len(reply) or 1, forced=reply or None))
        said = [one for one in server.log.of(answer.request) if getattr(one, "rule", "").startswith("BP-FIND")]
        out.append((answer.cache_n, said[0].because["junction"]))
        server.inspection.check()
    return out


@pytest.mark.parametrize("interval", [DENSE, 0, 8])
def test_a_branch_is_found_at_its_third_sighting(engine, interval):
    sequence = [A, A, branch(1), branch(2), branch(3)]
    assert found(engine, sequence, prefix_cache_retention_interval=interval) == [
        (0, 0), (20, 0), (0, 12), (12, 0), (12, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("interval, second", [(DENSE, (36, 0)), (4, (36, 0)), (8, (32, 36)), (0, (20, 36))])
def test_a_reply_is_found_where_states_of_replies_are_kept(engine, interval, second):
    sequence = [(A, REPLY), P2, P2]
    assert found(engine, sequence, prefix_cache_retention_interval=interval) == [(0, 0), second, (40, 0)]


@pytest.mark.parametrize("interval, expected", [
    (DENSE, [(0, 0), (36, 0), (56, 0), (76, 0)]), (0, [(0, 0), (20, 36), (40, 56), (60, 76)]),
])  # fmt: skip
def test_four_turns(engine, interval, expected):
    assert found(engine, turns(4), prefix_cache_retention_interval=interval) == expected


@pytest.mark.parametrize("interval, extended", [(DENSE, (24, 0)), (0, (20, 24))])
def test_a_prompt_that_ends_with_a_block(engine, interval, extended):
    sequence = [A24, A24, (*A24, *range(40, 46))]
    assert found(engine, sequence, prefix_cache_retention_interval=interval) == [(0, 0), (20, 0), extended]


@pytest.mark.parametrize("interval, third", [(DENSE, (32, 0)), (0, (16, 32))])
def test_with_a_drafter_that_keeps_rows_of_its_own(engine, interval, third):
    sequence = [(A, REPLY), A, P2, P2, branch(1), branch(2)]
    assert found(engine, sequence, prefix_cache_retention_interval=interval, use_eagle=True) == [
        (0, 0), (16, 0), third, (36, 0), (0, 8), (8, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("interval", [DENSE, 0])
@pytest.mark.parametrize("blocks, again", [(11, 0), (12, 0), (13, 0), (15, 20), (16, 20), (40, 20)])
def test_two_prompts_in_turn_fit_into_the_pool_or_drive_each_other_out(engine, interval, blocks, again):
    """A cliff, not a slope."""
    told = found(engine, [A, B, A, B], prefix_cache_retention_interval=interval, num_gpu_blocks=blocks)
    assert [hit for hit, _ in told] == [0, 0, again, again]
