"""Tests of the peak memory of a case, and of sizes of real models."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.engines.shared.size_formulas import ModelSizes
from cachesim.tools.advise.memory_meter import Sizes, peak_bytes, real_sizes, with_real_sizes
from cachesim.tools.advise.setup_changes import Setup

PEAKS = [
    ("A5/A.B15/A", "A", {}, 20, 0, 0), ("A40", "GA", {}, 40, 0, 2), ("A40>9", "W8 A", {}, 48, 56, 0),
    ("A40", "G", {}, 0, 0, 2), ("A40/B9", "A", {"cache_ram": 100}, 49, 0, 0),
    ("A40/B9", "A", {"cache_ram": 100, "parallel": 2}, 89, 0, 0),
]
"""Rows of full and of window layers, and states, that are held at most, and the case."""


def peak(line, model, sizes, **server):
    profile = "llama_cpp@b10587"
    found = cachesim.load(line, model=model, profile=profile, server={"parallel": 1, "cache_ram": 0, **server})
    return peak_bytes(Setup(found, profile), sizes)


@pytest.mark.parametrize(("line", "model", "server", "rows", "window", "states"), PEAKS)
def test_the_peak_counts_rows_window_rows_and_states(line, model, server, rows, window, states):
    found = [peak(line, model, sizes, **server) for sizes in (Sizes(1, 0, 0), Sizes(0, 1, 0), Sizes(0, 0, 1))]
    assert found == [rows, window, states]
    assert peak(line, model, Sizes(100, 10, 5_000), **server) <= 100 * rows + 10 * window + 5_000 * states


def test_a_model_with_real_sizes_is_counted_by_the_server():
    """A prompt in the prompt cache has the declared size of its rows."""
    own, declared = (peak("A40/B9", "A@1000/1000", Sizes(1, 0, 0, of), cache_ram=100) for of in ("", "a model"))
    assert own == 49 and declared > 40 * 1_000


def test_the_sizes_of_a_real_model_keep_their_kinds():
    model = ModelSizes("WAG", full=600, window=70, state_bytes=280, source="x")
    assert real_sizes(model) == Sizes(full=600, window=70, state=280, source="x")


def real(layers, full=600, states=280):
    return ModelSizes(layers, full, window=0, state_bytes=states, source="x")


@pytest.mark.parametrize("model", ["GA", "qwen35-GGGA", "qwen35-GGGA@9"])
def test_a_case_gets_the_sizes_of_a_real_model(model):
    found = cachesim.load("llama-24143-entry-removed-hybrid")
    sized = with_real_sizes(replace(found, model=model), real("GGGA"))
    assert (sized.model, sized.expect, sized.lives) == (real("GGGA").declared(model.partition("@")[0]), {}, ())
    assert sized.steps == found.steps and found.expect


@pytest.mark.parametrize(("model", "given", "error"), [
    ("A", {}, "recurrent states"),
    ("GA", {"states": 0}, "recurrent states"),
    ("GA", {"full": 0}, "K/V rows"),
    ("G", {}, "K/V rows"),
    ("tiny-llama", {}, "tiny-llama"),
])  # fmt: skip
def test_a_model_of_other_kinds_of_layers_is_refused(model, given, error):
    with pytest.raises(BadInput) as refused:
        with_real_sizes(replace(cachesim.load("A5/A"), model=model), real("GGGA", **given))
    assert error in str(refused.value)
