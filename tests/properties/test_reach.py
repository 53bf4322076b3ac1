"""Reach of a token: within a layer's reach a changed token always shows, beyond it never.

Reach of the last position, in tokens before it: w-1 for each window layer, taps-1 for a short convolution. Attention
sees everything (512 tokens are tested), and so does a recurrent state (64 and 300 tokens are tested).
"""

import random

import numpy as np
import pytest

from cachesim.model import Model, Spec, make_model
from cachesim.oracle.cold_run import ColdRun, cold

pytestmark = pytest.mark.long
MODELS = [
    "AAAA", "W32 A W32 A", "SSSS", "GGGAGGGA", "CCACAC", "C C W32 C W32 C", "HHH", "SSASSA", "GGGA", "W8 W8 W8 W8",
    "CCCC",
]                                                                   # fmt: skip
SHARE = 0.999                 # share of changes that must show in the bits


def reach(spec: Spec) -> int | None:
    """Return the number of tokens before the last token that can affect it; None = all."""
    if any(layer.part == "base" or (layer.recurrence and layer.recurrence.matrix) for layer in spec.layers):
        return None
    return sum(max(layer.window, layer.recurrence.taps if layer.recurrence else 0) - 1 for layer in spec.layers)


def tried(spec: Spec) -> int:
    """Return the largest distance at which changes are tested."""
    within = reach(spec)
    if within is not None:
        return within + 1
    return 512 if any(layer.part == "base" for layer in spec.layers) else 64


def shown(model: Model, tokens: list[int], base: ColdRun, place: int, value: int) -> tuple[bool, bool]:
    """True if another token at ``place`` changes the provenance and the logits of the last position."""
    last = len(tokens) - 1
    other = cold(model, [*tokens[:place], value, *tokens[place + 1 :]], logits_at=[last])
    return other.digests[-1] != base.digests[-1], not np.array_equal(other.logits[last], base.logits[last])


def count(notation: str, trials: int) -> tuple[int, int]:
    """Return the numbers of changes that show in provenance and in bits, each of a random token within reach."""
    model, rng, found = make_model(notation, True), random.Random(11), [0, 0]
    back = tried(model.spec)
    for trial in range(trials):
        if trial % 20 == 0:
            tokens = [rng.randrange(5000) for _ in range(back + 8)]
            base = cold(model, tokens, logits_at=[len(tokens) - 1])
        place = len(tokens) - 1 - rng.randrange(back)
        seen = shown(model, tokens, base, place, (tokens[place] + rng.randrange(1, 5000)) % 5000)
        found = [total + one for total, one in zip(found, seen, strict=True)]
    return found[0], found[1]


@pytest.mark.parametrize("notation", MODELS)
def test_a_change_within_reach_shows(notation: str) -> None:
    assert count(notation, 15) == (15, 15)


@pytest.mark.slow
@pytest.mark.parametrize("notation", MODELS)
def test_a_change_within_reach_shows_in_a_thousand_trials(notation: str) -> None:
    provenance, bits = count(notation, 1000)
    assert provenance == 1000 and bits >= SHARE * 1000


@pytest.mark.parametrize("notation", ["W8 W8 W8 W8", "CCCC", "C C W32 C W32 C", "C W3", "W1", "C"])
def test_reach_ends_exactly_where_it_should(notation: str) -> None:
    """The farthest token within reach shows and the next does not, in provenance and in bits."""
    model, rng = make_model(notation, True), random.Random(12)
    far = reach(model.spec)
    assert far is not None
    for _ in range(20):
        tokens = [rng.randrange(5000) for _ in range(far + 30)]
        base, last = cold(model, tokens, logits_at=[len(tokens) - 1]), len(tokens) - 1
        assert shown(model, tokens, base, last - far, 5001) == (True, True)
        assert shown(model, tokens, base, rng.randrange(last - far), 5001) == (False, False)
        assert shown(model, tokens, base, last - far - 1, 5001) == (False, False)


@pytest.mark.parametrize("notation", ["G", "S", "GGGA", "SSSS", "SSASSA"])
def test_a_wrong_first_token_still_shows_after_300(notation: str) -> None:
    model, rng = make_model(notation, True), random.Random(13)
    for _ in range(20):
        tokens = [rng.randrange(5000) for _ in range(300)]
        base = cold(model, tokens, logits_at=[299])
        assert shown(model, tokens, base, 0, 5001) == (True, True)
