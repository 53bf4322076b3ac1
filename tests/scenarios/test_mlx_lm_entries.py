"""Tests of mlx-lm's prompt-cache entries: each holds its key, except where the specification allows otherwise.

Offsets (tokens that an attention layer claims to hold) are typed from the worked examples of spec 5.
"""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.scenarios.runner import Silent, play
from tests.scenarios.test_corpus import SCENARIOS, played

DRAFTS = ("d4-last-token-missing", "d5-ring-does-not-rewind")
RINGS = ("d9-oldest-token-hidden",)
PADDING = ("d2-both-in-one-layer", "d2-late-and-shorter", "d2-padding-into-the-state")
TWICE = (
    "seed-1006-think-tail-attention", "seed-1006-think-tail-twice", "seed-929-append-only-thinking",
    "no-user-no-template", "one-message-only",
)
SHORT_RINGS = ("ring-rows-left-out",)
REPAIRS = ("repair-alone", "repair-mask", "repair-round", "repair-start")
REFUSED_LATER = ("ml09-drafts-on-a-hybrid",)
BAD = {
    "base923": DRAFTS,
    "v911": ("seed-1006-last-row-of-all", *TWICE),
    "base1006": (*RINGS, *REFUSED_LATER, *SHORT_RINGS, *TWICE),
    "m1019": TWICE,
    "m1072": (*DRAFTS, *RINGS, *REFUSED_LATER, *SHORT_RINGS),
    "v0.31.3": PADDING,
    "head": (*DRAFTS, *RINGS, *PADDING),
    "0.32.2": (*DRAFTS, *RINGS, *REPAIRS),
}
"""By version of the main branch: scenarios that leave an entry which does not hold its key."""


@pytest.mark.parametrize("version", BAD)
def test_entries_hold_their_keys_but_for_known_faults(version):
    profile = f"mlx_lm@{version}"
    mine = {name for name, scenario in SCENARIOS.items() if profile in scenario.profiles}
    bad = {name for name in mine if any(one.judged.armed for one in played(name, profile).requests)}
    assert bad == set(BAD[version]) & mine


class Offsets(Silent):
    """Notes after each step what the last layer of every entry claims to hold, by the length of its key."""

    def __init__(self):
        self.server, self.steps = None, []

    def started(self, server):
        self.server = server

    def answered(self, number, request, answer):
        entries = self.server.cache.lru.entries().items()
        self.steps.append(sorted((len(key), int(rows_of(entry.layers[-1]).offset)) for (_, key), entry in entries))


@pytest.mark.parametrize(("name", "profile", "step", "offsets"), [
    # 5.1: the snapshot of 11 is a copy of 25 tokens less 8; later it is made anew, from 30 less 7, and 36 less 7
    ("seed-929-nothing-below-8192", "pr923", 0, [(19, 25)]),
    ("seed-929-nothing-below-8192", "pr929", 0, [(11, 17), (19, 25)]),
    ("seed-929-nothing-below-8192", "pr929", 1, [(11, 23), (18, 30), (19, 25)]),
    ("seed-929-nothing-below-8192", "pr929", 2, [(11, 29), (18, 30), (18, 36), (19, 25)]),
    # 5.2
    ("seed-929-one-message", "pr923", 0, [(8, 14)]),
    # 5.3
    ("seed-929-all-or-nothing-trim", "pr923", 0, [(11, 25), (19, 25)]),
    ("seed-929-all-or-nothing-trim", "pr929", 0, [(11, 17), (19, 25)]),
    # 5.5: 25, and 7 tokens twice
    ("seed-1006-divergent-suffix", "pr1006a", 0, [(14, 14), (25, 32)]),
    # 5.6
    ("seed-1006-ragged-crash", "pr1006a", 2, [(11, 11), (12, 12), (14, 14), (24, 33), (25, 34), (27, 36)]),
    # 5.7: 10 + 10 + 11 + 3 under a key of 24
    ("seed-1006-key-of-another-state", "pr1006b", 2, [(10, 10), (14, 14), (24, 34), (25, 32), (28, 38)]),
    # 5.8
    ("seed-1006-think-tail-twice", "base1006", 0, [(21, 21), (27, 29)]),
    # 4.4: the states of the last row
    ("seed-1006-last-row-of-all", "v911", 2, [(20, 23), (21, 23), (23, 23), (24, 24), (25, 25), (27, 27)]),
    # 7.4
    ("d4-last-token-missing", "head", 0, [(9, 8)]),
])  # fmt: skip
def test_offsets_of_the_worked_examples(name, profile, step, offsets):
    watch = Offsets()
    play(SCENARIOS[name], f"mlx_lm@{profile}", "provenance", watch)
    assert watch.steps[step] == offsets
