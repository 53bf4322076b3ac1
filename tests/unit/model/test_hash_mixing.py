"""Tests of the uint64 operations of provenance."""

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.model import LayerState
from cachesim.model.attention_mask import View
from cachesim.model.hash_mixing import STEP, inverse, layer_keys, mix, mix_int, place, powers, token_digests
from cachesim.model.layer_kinds import KINDS
from cachesim.model.provenance import RunTrail, ShortTrail, moved
from cachesim.model.spec import Layer, parse
from tests.unit.model.plain_store import every_kind

SOME = np.array([0, 1, 2, 2**63, 2**64 - 1, 0x123456789ABCDEF0], np.uint64)


def test_mix_is_splitmix64() -> None:
    # The first outputs of splitmix64 seeded with 0 (Vigna's reference code) are mix(1 * golden), mix(2 * golden).
    golden = 0x9E3779B97F4A7C15
    assert mix_int(golden) == 0xE220A8397B1DCDAF and mix_int(2 * golden) == 0x6E789E6AA1B965F4
    assert mix(SOME).tolist() == [mix_int(int(z)) for z in SOME]


@pytest.mark.parametrize("n", [8191, 8192, 8193, 20_000])
def test_a_long_array_is_mixed_like_its_elements(n: int) -> None:
    values = np.arange(n, dtype=np.uint64) * STEP
    assert mix(values).tolist() == [mix_int(int(z)) for z in values]
    assert (mix(values[:, None] ^ SOME) == np.stack([mix(values ^ one) for one in SOME], 1)).all()


def test_inverse() -> None:
    odd = SOME | np.uint64(1)
    assert (odd * inverse(odd)).tolist() == [1] * len(SOME)


@pytest.mark.parametrize("n", [1, 2, 511, 512, 513, 3000])
def test_powers(n: int) -> None:
    up, down = powers(n)
    assert len(up) == len(down) == n and up[0] == STEP
    assert (up * down).tolist() == [1] * n
    assert int(up[-1]) == pow(int(STEP), n, 2**64)


def test_a_moved_row_is_the_row_of_its_new_place() -> None:
    x, old, new = mix(SOME), np.arange(6), np.arange(100, 106)
    assert (moved(x * place(old), old, new) == x * place(new)).all()


@pytest.mark.parametrize("tokens", [[-1], [2**128], ["a"], [2**63] * 9 + [-1], [5] * 9 + [-1], ["a"] * 9])
def test_bad_tokens(tokens: list[int]) -> None:
    with pytest.raises(BadInput):
        token_digests(tokens, 0)


def test_the_largest_key_of_a_token_has_its_own_digest() -> None:
    largest = 5 + (2**64 - 1) * 2**64
    found = token_digests([5, largest, 5 + 2**64], 0)
    assert len({*found.tolist()}) == 3 and token_digests([largest], 0)[0] == found[1]
    assert int(found[1]) == mix_int(int(found[0]) + mix_int(2**64 - 1) & 2**64 - 1)


@pytest.mark.parametrize("n", [0, 1, 2, 8, 9])
def test_few_tokens_are_as_in_company(n: int) -> None:
    tokens = [2**64 - 1, *range(5, 30), 2**63]
    assert token_digests(tokens[:n], 3).tolist() == token_digests(tokens, 3).tolist()[:n]


def test_a_token_is_the_same_alone_and_in_company() -> None:
    together = token_digests((5, 7, 2**63, 5), 3)
    assert together[0] == together[3] != token_digests((5,), 4)[0]
    assert [int(token_digests((t,), 3)[0]) for t in (5, 7, 2**63)] == together[:3].tolist()


@pytest.mark.parametrize("layer", parse(" ".join(every_kind(2))).layers, ids=lambda layer: layer.kind)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("hidden", [False, True])
def test_few_tokens_in_integers_are_the_run_of_few(layer: Layer, n: int, hidden: bool) -> None:
    keys, rows = layer_keys(1, 0), SOME.copy()
    asked, positions = np.arange(6 - n, 6), np.arange(6) + np.array([0, 0, 0, 0, 0, 4 * hidden])
    view = View(positions, asked)
    assert view.tail != hidden
    trails = RunTrail(SOME[6 - n :].copy(), 6 - n), ShortTrail(SOME[6 - n :], 6 - n)
    states = []
    for trail in trails:
        state = None
        for _ in range(6):
            if layer.part:
                rows[6 - n :] = trail.rows(keys)
                trail.attend(rows, view, layer.window)
            if layer.recurrence:
                state = _state(*trail.recur(layer.recurrence, state))
            trail.leave(keys)
        states.append(state)
    assert trails[0].digest.tolist() == trails[1].digest.tolist()
    assert str(states[0]) == str(states[1])


def _state(conv: np.ndarray, hashed: int) -> LayerState:
    assert not conv.flags.writeable
    return LayerState(conv, hashed, None, None)


@pytest.mark.parametrize("letter", [letter for letter, kind in KINDS.items() if kind.recurrence])
@pytest.mark.parametrize("n", [1, 5])
def test_both_go_on_from_any_state(letter: str, n: int) -> None:
    """A state may have a hash that no input produces: engines mark non-numbers so."""
    form = KINDS[letter].recurrence
    assert form is not None
    state = LayerState(SOME[: form.taps - 1], 7, None, None)
    trails = RunTrail(SOME[6 - n :].copy(), 6 - n), ShortTrail(SOME[6 - n :], 6 - n)
    states = [_state(*trail.recur(form, state)) for trail in trails]
    for trail in trails:
        trail.leave(layer_keys(1, 0))
    assert trails[0].digest.tolist() == trails[1].digest.tolist()
    assert str(states[0]) == str(states[1]) and (states[0].hash == 0) == (not form.matrix)


def test_a_key_is_mixed_into_the_digest_of_its_token() -> None:
    plain = token_digests([5, 7, 5], 3).tolist()
    found = token_digests([5, 7 + 9 * 2**64, 5 + 2 * 2**64], 3).tolist()
    assert found == [plain[0], mix_int(plain[1] + mix_int(9)), mix_int(plain[2] + mix_int(2))]
    many = list(range(20))
    assert token_digests([*many, 3 + 2**64], 0).tolist() == [
        *token_digests(many, 0).tolist(), mix_int(int(token_digests([3], 0)[0]) + mix_int(1))]  # fmt: skip


@pytest.mark.parametrize("tokens", [[-1], [2**128], [1, 2**128 + 5], ["a"], [*range(9), 2**64, -1]])
def test_what_is_no_token_is_refused_in_a_sentence(tokens: list[int]) -> None:
    with pytest.raises(BadInput) as refused:
        token_digests(tokens, 0)
    assert str(refused.value) == "a token is an integer from 0 to 2**64 - 1"


def test_the_digest_of_a_token_is_that_of_its_multiple_of_the_golden_ratio() -> None:
    golden, start = 0x9E3779B97F4A7C15, mix_int(3)
    for tokens in ([5, 2**64 - 1], [*range(30, 40), 2**63 + 1], [*range(30, 40)]):
        assert token_digests(tokens, 3).tolist() == [mix_int(token * golden + start) for token in tokens]


def test_the_constants_of_a_layer_depend_on_seed_and_layer() -> None:
    golden = 0x9E3779B97F4A7C15
    base = mix_int(mix_int(3 + golden) + 3 * golden)
    row, own, out = (mix_int(base + i * golden) for i in (1, 2, 3))
    found = layer_keys(3, 2)
    assert (found.row, found.own, found.out, found.ints) == (row, own | 1, out, (row, own | 1, out))
    assert int(layer_keys(3, 2).own) % 2 == 1 and layer_keys(3, 2) is layer_keys(3, 2)


def test_the_factor_of_a_place_is_odd_also_before_the_start() -> None:
    assert place(np.array([0, 1, 7, -1, -2])).tolist() == [1, 3, 15, 2**64 - 1, 2**64 - 3]
