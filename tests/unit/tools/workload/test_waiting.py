"""Tests of requests that wait for a slot: how many, and for how many tokens of others."""

import pytest

from cachesim.tools.workload.block_tokens import SessionRequest
from cachesim.tools.workload.run_cell import cell
from cachesim.tools.workload.simulated_servers import served


def requests(together):
    """Return prompts of 40, 30 and 20 tokens with answers of 2, 3 and 1."""
    sizes = ((40, 2, 0), (30, 3, 1000), (20, 1, 2000))
    return [SessionRequest(tuple(range(first, first + prompt)), tuple(range(first + 500, first + 500 + answer)), (),
                           together and first > 0) for prompt, answer, first in sizes]  # fmt: skip


@pytest.mark.parametrize(("together", "parallel", "waiting", "tokens"), [
    (True, 1, 2, 42 + 42 + 33), (True, 3, 0, 0), (False, 1, 0, 0),
])  # fmt: skip
def test_a_request_waits_for_the_answers_before_it_in_its_slot(together, parallel, waiting, tokens):
    server = served("llama_cpp@b11549", "A", {"ctx_size": 1024, "parallel": parallel}, 700)
    found = cell(requests(together), server)
    assert (found.waiting, found.waiting_tokens) == (waiting, tokens)
    assert "waiting" not in found.data()
