"""Tests of QuantizedKVCache and MLX's packed numbers (specification 1.0, 1.1; verified against mlx 0.32.4)."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.caches import AT_0_32_2, KVCache, QuantizedKVCache, dequantize, quantize
from tests.unit.engines.mlx_lm.rows import numbers


def test_a_group_of_equal_steps_is_packed_exactly():
    ramp = np.arange(32, dtype="f4")[None]
    words, scales, biases = quantize(ramp, 32, 8)
    assert (words.shape, words.dtype) == ((1, 8), np.uint32)
    assert biases.tolist() == [[31.0]]                    # the end of larger magnitude
    assert scales[0, 0] < 0
    assert np.allclose(dequantize((words, scales, biases), 32, 8), ramp, atol=0.07)


def test_two_levels_of_two_bits():
    rows = np.array([[0.0, -3.0] * 16], "f4")
    words, scales, biases = quantize(rows, 32, 2)
    assert (scales.tolist(), biases.tolist()) == ([[1.0]], [[-3.0]])
    # codes 3, 0, 3, 0 from the lowest bits: 0b00_11_00_11, four times
    assert words.tolist() == [[0x33333333, 0x33333333]]
    assert dequantize((words, scales, biases), 32, 2).tolist() == rows.tolist()


def test_zeros_have_the_smallest_scale_and_divide_nothing_by_zero():
    with np.errstate(all="raise"):
        words, scales, biases = quantize(np.zeros((1, 32), "f4"), 32, 4)
    assert (words.tolist(), biases.tolist()) == ([[0] * 4], [[0.0]])
    assert scales.tolist() == [[float(np.float32(-1e-7))]]


@pytest.mark.parametrize(("width", "group_size", "bits"), [(3, 32, 4), (32, 16, 4), (32, 32, 7), (32, 64, 8)])
def test_what_mlx_refuses(width, group_size, bits):
    with pytest.raises(ValueError):
        quantize(np.zeros((1, width), "f4"), group_size, bits)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_no_value_is_further_off_than_one_step(bits):
    rows = np.sin(np.arange(128, dtype="f4")).reshape(2, 64)
    packed = quantize(rows, 64, bits)
    assert packed[0].shape == (2, 64 * bits // 32)
    assert np.abs(dequantize(packed, 64, bits) - rows).max() <= 2.01 / (2**bits - 1)


def test_the_cache_grows_by_blocks_and_does_not_know_its_size():
    cache = QuantizedKVCache(32, 8)
    cache.update_and_fetch(numbers(1, 1, 3, 32), numbers(1, 1, 3, 64))
    assert (cache.offset, cache.size(), cache.is_trimmable(), cache.empty()) == (3, 0, True, False)
    # keys: 8 words + 2 numbers, values: 16 words + 4 numbers, for each of 256 columns
    assert cache.nbytes == 256 * 4 * (8 + 2 + 16 + 4)
    assert cache.trim(9) == 3


def test_a_quantized_cache_without_tokens_has_no_bytes_to_tell():
    with pytest.raises(AttributeError):
        QuantizedKVCache().nbytes  # noqa: B018


def test_quantizing_takes_the_slack_along():
    cache = KVCache(rules=AT_0_32_2)
    cache.update_and_fetch(numbers(1, 1, 3, 64), numbers(1, 1, 3, 64))
    packed = cache.to_quantized()
    assert (packed.offset, packed.group_size, packed.bits) == (3, 64, 4)
    assert packed.keys[0].shape == (1, 1, 256, 8)
    assert packed.state[2:] == (3, 64, 4)


def test_nothing_can_be_packed_too():
    words, scales, biases = quantize(np.zeros((1, 0, 32), "f2"), 32, 8)
    assert (words.shape, scales.shape, biases.dtype) == ((1, 0, 8), (1, 0, 1), np.float16)
    assert dequantize((words, scales, biases), 32, 8).shape == (1, 0, 32)


def test_a_quantized_cache_grows_after_a_trim_and_keeps_what_is_left():
    cache, rows = QuantizedKVCache(32, 8), np.arange(300 * 32, dtype="f4").reshape(1, 1, 300, 32)
    cache.update_and_fetch(rows[:, :, :250], rows[:, :, :250])
    assert (cache.keys[0].shape[2], cache.trim(2), cache.offset) == (256, 2, 248)
    held, _ = cache.update_and_fetch(rows[:, :, 248:300], rows[:, :, 248:300])
    assert (cache.offset, held[0].shape[2], cache.keys[0].shape[2]) == (300, 300, 248 + 256)
    whole, _ = QuantizedKVCache(32, 8).update_and_fetch(rows, rows)
    assert all((one == other).all() for one, other in zip(held, whole, strict=True))


def test_an_empty_quantized_cache_has_no_rows():
    with pytest.raises(TypeError, match="the cache holds no buffer yet"):
        QuantizedKVCache().keys_and_values()


def test_the_state_of_a_quantized_cache_is_restored():
    cache, rows = QuantizedKVCache(32, 8), numbers(1, 1, 3, 32)
    cache.update_and_fetch(rows, rows)
    fresh = QuantizedKVCache()
    fresh.state, fresh.meta_state = cache.state, cache.meta_state
    assert (fresh.offset, fresh.group_size, fresh.bits, fresh.keys_and_values()[0][0].shape) == (3, 32, 8, (1, 1, 3, 8))


def test_a_step_that_fits_into_the_buffer_is_written_there():
    cache, rows = QuantizedKVCache(32, 8), numbers(1, 1, 6, 32)
    rows[:] = np.arange(6)[None, None, :, None]
    cache.update_and_fetch(rows[:, :, :4], rows[:, :, :4])
    buffer = cache.keys[0].shape
    keys, values = cache.update_and_fetch(rows[:, :, 4:], rows[:, :, 4:])
    assert cache.offset == 6 and cache.keys[0].shape == buffer
    whole = quantize(rows, 32, 8)
    assert all(np.array_equal(have, want) for side in (keys, values) for have, want in zip(side, whole, strict=True))


def test_a_token_has_eight_bits_unless_its_cache_is_converted_to_four():
    fresh, converted = QuantizedKVCache(), KVCache().to_quantized()
    assert [(cache.group_size, cache.bits, cache.offset) for cache in (fresh, converted)] == [(64, 8, 0), (64, 4, 0)]
    assert (converted.keys, converted.values) == (None, None)


@pytest.mark.parametrize(("first", "more", "columns"), [(255, 1, 256), (256, 1, 512), (255, 2, 511), (200, 56, 256)])
def test_a_packed_buffer_grows_when_it_is_full(first, more, columns):
    cache = QuantizedKVCache()
    for n in (first, more):
        cache.update_and_fetch(numbers(1, 1, n, 64), numbers(1, 1, n, 64))
    assert [part.shape[2] for part in (*cache.keys, *cache.values)] == [columns] * 6 and cache.offset == first + more
