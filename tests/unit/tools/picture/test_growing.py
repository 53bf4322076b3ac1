"""Tests that the work of a picture grows with the number of requests as it should, counted without a clock."""

from __future__ import annotations

from itertools import pairwise
from math import log2

import pytest

import cachesim
from cachesim.tools.picture.page import page
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.run.pictured_runs import run_pictured
from tests.bench.work import count

ENGINES = {
    "vllm": ("vllm@0.33.0", "A", {"num_gpu_blocks": 1000}), "sglang": ("sglang@0.5.23", "A", {}),
    "mlx_lm": ("mlx_lm@0.32.2", "A", {}),
}  # fmt: skip
SIZES = 4, 8, 16
MOST = 1.1                   # exponent


def line(requests):
    """Return requests that share their beginning, each with a word of its own."""
    words = ["W" + "".join("ABCDEFGHIJ"[int(digit)] for digit in str(number)) for number in range(requests)]
    return "S20." + "/S.".join(f"{word}16>1" for word in words)


def recorded(engine, requests):
    profile, model, server = ENGINES[engine]
    case = cachesim.load(line(requests), profile=profile, model=model, server=server)
    return run_pictured(case, profile, events=True)


def exponents(work):
    """Return the exponents between each size and the next."""
    return [log2(more / less) for less, more in pairwise(work)]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_calls_of_a_whole_picture_grow_with_the_requests(engine):
    def draw(requests):
        run = recorded(engine, requests)
        page([run.scene()], PictureOptions(), [run.told()])

    draw(SIZES[0])                                      # what is loaded and cached once
    calls = [count(lambda n=requests: draw(n)).calls for requests in SIZES]
    assert max(exponents(calls)) <= MOST, calls
