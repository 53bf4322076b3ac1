"""Tests of mlx-lm's prompt-cache entries: each holds its key, except where the specification allows otherwise.

Offsets (tokens that an attention layer claims to hold) are typed from the worked examples of spec 5.
"""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.scenarios.runner import SilentObserver, play
from tests.scenarios.test_corpus import SCENARIOS, shown

DRAFTS = ("mlx-draft-last-token-missing", "mlx-1423-rejected-drafts-stay-window")
RINGS = ("mlx-oldest-token-hidden",)
PADDING = ("mlx-1736-padding-in-state-falconh1", "mlx-1736-join-padding-in-state-recurrent",
    "mlx-1736-padding-in-state-hybrid")
TWICE = (
    "mlx-911-think-tail-fed-twice-dense", "mlx-911-think-tail-fed-twice-hybrid",
    "mlx-923-append-only-thinking-hybrid",
    "mlx-1006-template-needs-user-hybrid", "mlx-1006-one-message-no-boundary-hybrid",
)
SHORT_RINGS = ("mlx-1114-entry-lacks-rows-window",)
REPAIRS = ("mlx-repair-draft-key", "mlx-repair-ring-mask", "mlx-repair-draft-round", "mlx-repair-draft-start")
REFUSED_LATER = ("mlx-1109-rejected-drafts-stay-hybrid",)
BAD = {
    "base923": DRAFTS,
    "0.31.0": ("mlx-976-last-row-checkpoint-hybrid", *TWICE),
    "0.31.1": (*RINGS, *REFUSED_LATER, *SHORT_RINGS, *TWICE),
    "m1019": TWICE,
    "m1072": ("mlx-834-limit-ignored-in-batch", *DRAFTS, *RINGS, *REFUSED_LATER, *SHORT_RINGS),
    "0.31.3": ("mlx-1673-chunk-loses-tokens", *PADDING),
    "d78bf58e": (*DRAFTS, *RINGS, *PADDING),
    "0.32.2": (*DRAFTS, *RINGS, *REPAIRS),
}
"""By version of the main branch: scenarios that leave an entry which does not hold its key."""


@pytest.mark.parametrize("version", BAD)
def test_entries_hold_their_keys_but_for_known_faults(version):
    profile = f"mlx_lm@{version}"
    mine = {name for name, scenario in SCENARIOS.items() if profile in scenario.profiles}
    bad = {name for name in mine if shown(name, profile).has_bad_entry}
    assert bad == set(BAD[version]) & mine


class Offsets(SilentObserver):
    """Notes after each step what the last layer of every entry claims to hold, by the length of its key."""

    def __init__(self):
        self.server, self.steps = None, []

    def started(self, server):
        self.server = server

    def answered(self, number, request, answer):
        entries = self.server.core.cache.lru.entries().items()
        self.steps.append(sorted((len(key), int(rows_of(entry.layers[-1]).offset)) for (_, key), entry in entries))


@pytest.mark.parametrize(("name", "profile", "step", "offsets"), [
    # 5.1: the snapshot of 11 is a copy of 25 tokens less 8; later it is made anew, from 30 less 7, and 36 less 7
    ("mlx-929-no-snapshot-below-8192-hybrid", "pr923", 0, [(19, 25)]),
    ("mlx-929-no-snapshot-below-8192-hybrid", "pr929", 0, [(11, 17), (19, 25)]),
    ("mlx-929-no-snapshot-below-8192-hybrid", "pr929", 1, [(11, 23), (18, 30), (19, 25)]),
    ("mlx-929-no-snapshot-below-8192-hybrid", "pr929", 2, [(11, 29), (18, 30), (18, 36), (19, 25)]),
    # 5.2
    ("mlx-929-one-message-hybrid", "pr923", 0, [(8, 14)]),
    # 5.3
    ("mlx-929-all-or-nothing-trim-hybrid", "pr923", 0, [(11, 25), (19, 25)]),
    ("mlx-929-all-or-nothing-trim-hybrid", "pr929", 0, [(11, 17), (19, 25)]),
    # 5.5: 25, and 7 tokens twice
    ("mlx-1006-divergent-suffix-hybrid", "pr1006a", 0, [(14, 14), (25, 32)]),
    # 5.6
    ("mlx-1006-ragged-crash-hybrid", "pr1006a", 2, [(11, 11), (12, 12), (14, 14), (24, 33), (25, 34), (27, 36)]),
    # 5.7: 10 + 10 + 11 + 3 under a key of 24
    ("mlx-1006-key-of-another-state-hybrid", "pr1006b", 2, [(10, 10), (14, 14), (24, 34), (25, 32), (28, 38)]),
    # 5.8
    ("mlx-911-think-tail-fed-twice-hybrid", "0.31.1", 0, [(21, 21), (27, 29)]),
    # 4.4: the states of the last row
    ("mlx-976-last-row-checkpoint-hybrid", "0.31.0", 2, [(20, 23), (21, 23), (23, 23), (24, 24), (25, 25), (27, 27)]),
    # 7.4
    ("mlx-draft-last-token-missing", "d78bf58e", 0, [(9, 8)]),
])  # fmt: skip
def test_offsets_of_the_worked_examples(name, profile, step, offsets):
    watch = Offsets()
    play(SCENARIOS[name], f"mlx_lm@{profile}", "provenance", watch)
    assert watch.steps[step] == offsets
