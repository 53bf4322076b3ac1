"""Our tree gives the results of the released ones: some of the campaigns whose digests are stored."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang import ENGINE, PROFILES
from tests.peers.sglang_campaign import digest, stored

TRIED = 3                       # campaigns of each release


@pytest.mark.parametrize("release", stored())
def test_a_campaign_on_our_tree_has_the_digest_of_the_released_tree(release):
    rules = PROFILES[f"sglang@{release}"]
    assert [digest(rules, number) for number in range(TRIED)] == stored()[release][:TRIED]


def test_every_release_of_the_line_was_compared():
    assert tuple(f"sglang@{release}" for release in stored()) == ENGINE.line
