"""Lengths of prompts that a simulation of a log assumes."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.assumed_lengths import MOST_ASSUMED, assumed_lengths
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange


@pytest.mark.parametrize(("reused", "assumed"), [(9, [10]), (MOST_ASSUMED - 1, [MOST_ASSUMED]), (MOST_ASSUMED, [])])
def test_a_length_without_an_upper_bound_is_assumed_up_to_a_limit(reused, assumed):
    request = LoggedRequest(0, 1, numbers={"cache_n": ProvenRange(reused, reused)}, cache_n=reused)
    [lengths] = assumed_lengths([request])
    assert [length.n_tokens for length in lengths] == assumed
