"""Our server does what the released ones did: the cases whose digests are stored."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang import PROFILES
from tests.peers.sglang_turns import digest, stored


@pytest.mark.parametrize(("release", "place"), [
    pytest.param(release, place, id=f"{release}-{cases[place][0]}", marks=[pytest.mark.long] * bool(place))
    for release, cases in stored().items() for place in range(len(cases))
])
def test_a_case_on_our_server_has_the_digest_of_the_released_server(release, place):
    number, counts, told = stored()[release][place]
    assert digest(PROFILES[f"sglang@{release}"], number, counts) == told
