"""Tests of batched forward passes: each row equals its cold run bit for bit, unless a version's masks or zeros are
wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cachesim.engines.mlx_lm import PROFILES
from cachesim.engines.mlx_lm.batch import left_padded, merged, right_padded, to_batch
from cachesim.engines.mlx_lm.caches import AT_0_32_2
from cachesim.engines.mlx_lm.events import Died
from cachesim.engines.mlx_lm.forward import BatchStore, RowPiece, forward
from cachesim.engines.mlx_lm.model_layout import make_caches, rows_of, states_of
from cachesim.judging.compare_answer import Judge
from cachesim.model import make_model, parse
from tests.unit.engines.mlx_lm.serving import burst, chat, keys, offsets, server, stored, system, user

ROWS = (tuple(range(1, 7)), tuple(range(11, 20)), tuple(range(21, 28)))       # 6, 9 and 7 tokens, as in 5.11
MODELS = ["GGGA", "AAAA", "W8 A", "SSSS", "CCA", "HH"]


def rules(profile):
    return PROFILES[f"mlx_lm@{profile}"].caches


def fresh(model, profile):
    return make_caches(model.spec, rules(profile))


def alone(model, tokens, profile="0.32.2"):
    caches = fresh(model, profile)
    (said,) = forward(model, model.spec, caches, [tokens])
    return said, caches


def right(model, profile, width=9):
    """Feed the rows in a batch, padded on the right. Return the outputs and each row's caches."""
    caches = merged([fresh(model, profile) for _ in ROWS])
    padding = [width - len(row) for row in ROWS]
    for cache in caches:
        cache.prepare(lengths=[len(row) for row in ROWS], right_padding=padding)
    said = forward(model, model.spec, caches, right_padded(ROWS, width))
    for cache in caches:
        cache.finalize()
    return said, [[cache.extract(i) for cache in caches] for i in range(len(ROWS))]


def same(mine, theirs):
    """Return the layers in which two conversations hold equal contents. K/V rows are compared as far as both count."""
    return [_same_rows(*map(rows_of, pair)) and _same_states(*map(states_of, pair))
            for pair in zip(mine, theirs, strict=True)]


def _same_rows(a, b):
    if a is None:
        return True
    n = min(int(a.offset), 8)
    cut = [_ordered(one)[:, :, -n:] for one in (a, b)]
    return int(a.offset) == int(b.offset) and np.array_equal(*cut)


def _ordered(cache):
    return cache.temporal(cache.keys) if hasattr(cache, "temporal") else cache.keys[:, :, : cache.offset]


def _same_states(a, b):
    return a is None or all(np.array_equal(x, y) for x, y in zip(a.cache, b.cache, strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("profile", ["0.32.2", "m1072"])
def test_rows_padded_on_the_right_are_what_they_are_alone(name, profile):
    model = make_model(parse(name), exact=True)
    said, held = right(model, profile)
    for i, row in enumerate(ROWS):
        own, caches = alone(model, row, profile)
        assert np.array_equal(own.x, said[i].x[: len(row)]) and np.array_equal(own.digest, said[i].digest[: len(row)])
        assert all(same(held[i], caches))


@pytest.mark.parametrize("name, wrong", [
    ("GGGA", [0, 1, 2]), ("SSSS", [0, 1, 2, 3]), ("HH", [0, 1]), ("CCA", []), ("AAAA", []),
])
@pytest.mark.parametrize("profile", ["d78bf58e", "0.31.3"])
def test_7_2_padding_is_folded_into_the_states_of_shorter_rows(name, wrong, profile):
    """Rows 0 and 2 get 3 and 2 tokens of padding. Short convolutions keep what the lengths allow."""
    model = make_model(parse(name), exact=True)
    said, held = right(model, profile)
    for i, row in enumerate(ROWS):
        own, caches = alone(model, row, profile)
        assert np.array_equal(own.x, said[i].x[: len(row)])           # before the padding all is well
        found = [layer for layer, good in enumerate(same(held[i], caches)) if not good]
        assert found == ([] if i == 1 else wrong)


@pytest.mark.parametrize("name", MODELS)
def test_fresh_rows_padded_on_the_left_are_what_they_are_alone(name):
    """Two steps, so that the padding of row 0 reaches the end of the first step."""
    model = make_model(parse(name), exact=True)
    caches = [to_batch(cache, [3, 0, 2]) for cache in fresh(model, "0.31.1")]
    tokens = left_padded(ROWS, 9)
    forward(model, model.spec, caches, [row[:3] for row in tokens])
    said = forward(model, model.spec, caches, [row[3:] for row in tokens])
    for cache in caches:
        cache.finalize()
    for i, row in enumerate(ROWS):
        own, single = alone(model, row, "0.31.1")
        assert np.array_equal(own.x[-1], said[i].x[-1])
        assert all(same([cache.extract(i) for cache in caches], single))


@pytest.mark.parametrize("name", MODELS)
def test_steps_of_one_token_behind_a_ragged_batch_stay_cold(name):
    """Twelve tokens: a ring of eight wraps."""
    model = make_model(parse(name), exact=True)
    _, held = right(model, "0.32.2")
    caches, more = merged(held), list(range(40, 52))
    for token in more:
        said = forward(model, model.spec, caches, [(token,)] * 3)
    for i, row in enumerate(ROWS):
        own, single = alone(model, (*row, *more))
        assert np.array_equal(own.x[-1], said[i].x[-1])
        assert all(same([cache.extract(i) for cache in caches], single))


def test_positions_count_from_the_end_of_the_padding():
    """The output of a row is independent of the length of its padding."""
    model = make_model(parse("AAAA"), exact=False)
    said = [forward(model, model.spec, [to_batch(cache, [pad, 0]) for cache in fresh(model, "0.31.1")],
                    left_padded([(1, 2, 3), tuple(range(10, 13 + pad))], 3 + pad))[0] for pad in (0, 4)]
    assert said[0].digest[-1] == said[1].digest[-1]


def test_without_numbers_the_caches_move_all_the_same():
    spec = parse("GGGA")
    caches = make_caches(spec, rules("0.32.2"))
    said = forward(None, spec, caches, [(1, 2, 3)])
    assert len(said[0].digest) == 3 and said[0].x is None
    assert caches[3].offset == 3 and [len(slot) for slot in caches[0].cache] == [1, 1]


def test_states_of_another_number_of_rows_do_not_fit():
    """Treatment of a fresh row beside other rows in m1072."""
    model = make_model(parse("GGGA"), exact=False)
    caches = alone(model, (1, 2))[1]
    with pytest.raises(Died, match="states of 1 rows in a batch of 2"):
        forward(model, model.spec, [*caches[:3], merged([fresh(model, "0.32.2")] * 2)[3]], [(3,), (4,)])


def test_5_7_zeros_enter_the_rows_of_pr1006b():
    """Found: 14. Users of 2 and 6 tokens: pc is 11, so the first row loses 4 tokens of its prefix. Then 4 zeros and its
    7 tokens are evaluated, all but the last token twice."""
    one = server("pr1006b")
    burst(one, chat(system(), user(3)))
    assert keys(one) == {"normal": [25], "checkpoint": [14]}
    burst(one, chat(system(), user(2, 30)), chat(system(), user(6, 40)))
    assert offsets(one)[24] == 34 and offsets(one)[10] == 10
    entry = next(entry for entry in stored(one) if len(entry.tokens) == 24)
    cold = Judge(one.model).cold_runs.speaking(entry.tokens, (), 24)
    (part,) = entry.rows
    differs = part.rows[3].digest[:24] != cold.rows(3).digest[:24]
    assert differs.tolist() == [False] * 10 + [True] * 14


def test_5_7_the_checkpoint_has_the_rows_of_its_key_and_the_state_of_more():
    one = server("pr1006b")
    burst(one, chat(system(), user(3)))
    burst(one, chat(system(), user(2, 30)), chat(system(), user(6, 40)))
    short = next(entry for entry in stored(one) if len(entry.tokens) == 10)
    judge = Judge(one.core.machine.model)
    assert judge.stored(short._replace(state=None)).equal_cold
    assert "state after 10 tokens" in judge.stored(short).why
    one = server("pr1006c")
    burst(one, chat(system(), user(3)))
    burst(one, chat(system(), user(2, 30)), chat(system(), user(6, 40)))
    assert 10 not in offsets(one) and offsets(one)[24] == 34


@pytest.mark.parametrize("layers", ["AG", "GA", "AGAS", "W8 G A"])
def test_states_after_layers_without_states_are_stored(layers):
    model = make_model(parse(layers), exact=False)
    _, whole = alone(model, ROWS[0])
    caches = fresh(model, "0.32.2")
    for start in (0, 2):
        forward(model, model.spec, caches, [ROWS[0][start : 2 if not start else None]])
    assert all(same(whole, caches)) and not any(cache.empty() for cache in map(states_of, caches) if cache is not None)


def piece(start, stop, folded, conv, row=1):
    return RowPiece(row, start, stop, folded, conv)


def test_without_a_mask_all_tokens_enter_the_states_and_the_lengths_say_which_the_convolution_keeps():
    kept = replace(AT_0_32_2, arrays_mask=lambda width, padding, lengths: None)
    caches = merged([make_caches(parse("S"), kept) for _ in range(2)])
    for cache in caches:
        cache.prepare(lengths=[2, 3])
    store = BatchStore(parse("S"), caches, [(1, 2, 3), (4, 5, 6)], exact=False)
    assert store.pieces == [piece(0, 2, True, True, row=0), piece(2, 3, True, False, row=0), piece(0, 3, True, True)]


def test_a_layer_has_the_window_of_its_ring_and_none_with_a_cache_of_all_tokens():
    spec, tokens = parse("W8"), [tuple(range(12))]
    (ring,) = BatchStore(spec, make_caches(spec, AT_0_32_2), tokens, exact=False).masks.values()
    assert np.asarray(ring).sum(axis=-1).tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8]]
    (whole,) = BatchStore(spec, make_caches(spec, AT_0_32_2, rings=False), tokens, exact=False).masks.values()
    assert isinstance(whole, str) and whole == "causal"
