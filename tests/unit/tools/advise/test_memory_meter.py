"""Tests of the peak memory of a case, and of sizes of real models."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.tools.advise.memory_meter import UNITS, Meter, Sizes, peak_bytes, real_sizes, size_of, with_real_sizes
from cachesim.tools.advise.setup_changes import Setup

SIZES = Sizes(100, 10, 5000)


def part(rows, window=False):
    return SimpleNamespace(pos=range(rows), window=window)


def stored(*rows, state=None):
    return SimpleNamespace(rows=rows, state=None if state is None else SimpleNamespace(pos=state))


@pytest.mark.parametrize(("held", "size"), [
    (stored(), 0), (stored(part(3)), 300), (stored(part(3), part(7, window=True)), 370), (stored(state=0), 5000),
    (stored(state=-1), 0), (stored(part(2), state=5), 5200),
])  # fmt: skip
def test_a_stored_object_has_rows_and_a_state(held, size):
    assert size_of(held, SIZES) == size


def server(live, kept, dead=False, own=(7,)):
    inspection = SimpleNamespace(occupied_slots=lambda: [*live], live=live.get, kept=lambda: [*kept], stored=kept.get)
    return SimpleNamespace(dead=dead, inspection=inspection, sizes=SimpleNamespace(stored_bytes=lambda: own))


def test_the_most_bytes_after_an_answer_are_kept():
    meter = Meter(SIZES)
    meter.answered(0, None, None)
    assert meter.most == 0
    for slots, entries in (({0: stored(part(2)), 1: stored(part(1))}, {"a": stored(part(4), state=0)}), ({}, {})):
        meter.started(server(slots, entries))
        meter.answered(0, None, None)
    assert meter.most == 300 + 5400
    meter.started(server({0: stored(part(99))}, {}, dead=True))
    meter.answered(0, None, None)
    assert meter.most == 5700


def test_a_model_with_real_sizes_is_counted_by_the_server():
    meter = Meter(SIZES._replace(source="a model"))
    meter.started(server({0: stored(part(2))}, {"a": stored(part(4))}, own=(1000, 30)))
    meter.answered(0, None, None)
    assert meter.most == 1230


def test_a_case_is_run_for_its_peak():
    """One slot of attention rows: the longest conversation is 20 tokens and an answer that has no row."""
    found = cachesim.load("A5/A.B15/A", model="AA", profile="llama_cpp@b10587", server={"cache_ram": 0})
    case = Setup(found, "llama_cpp@b10587")
    peaks = [peak_bytes(case, Sizes(one, 0, 0)) for one in (1, 3)]
    assert peaks[0] >= 20 and peaks[1] == 3 * peaks[0] and Sizes(1, 1, 22) == UNITS


def real(layers, **given):
    numbers = {"attention": 300, "recurrent": 40, "row": 2, "state_bytes": 7, "source": "x"}
    return SimpleNamespace(layers=layers, declared=lambda name: f"{name}@300", **{**numbers, **given})


@pytest.mark.parametrize(("layers", "attention", "sizes"), [
    ("W8 W8 A", 300, Sizes(200, 400, 7, "x")), ("GGA", 300, Sizes(600, 0, 7, "x")), ("W8", 300, Sizes(0, 600, 7, "x")),
    ("GS", 0, Sizes(0, 0, 7, "x")), ("W8 A", 301, Sizes(302, 300, 7, "x")),
])  # fmt: skip
def test_the_bytes_of_a_row_are_divided_among_the_layers(layers, attention, sizes):
    assert real_sizes(real(layers, attention=attention)) == sizes


@pytest.mark.parametrize("model", ["GA", "qwen35-GGGA", "qwen35-GGGA@9"])
def test_a_case_gets_the_sizes_of_a_real_model(model):
    found = cachesim.load("llama-24143-entry-removed-hybrid")
    sized = with_real_sizes(replace(found, model=model), real("GGGA"))
    assert (sized.model, sized.expect, sized.lives) == (f"{model.partition('@')[0]}@300", {}, ())
    assert sized.steps == found.steps and found.expect


@pytest.mark.parametrize(("model", "given", "error"), [
    ("A", {}, "A has no recurrent states, unlike the model of these sizes (--model GGGA)"),
    ("GA", {"recurrent": 0}, "GA has recurrent states, unlike the model of these sizes (--model GGGA)"),
    ("GA", {"attention": 0}, "GA has K/V rows, unlike the model of these sizes (--model GGGA)"),
    ("G", {}, "G has no K/V rows, unlike the model of these sizes (--model GGGA)"),
    ("tiny-llama", {}, "the model tiny-llama declares its own sizes (--model names other layers)"),
])  # fmt: skip
def test_a_model_of_other_kinds_of_layers_is_refused(model, given, error):
    with pytest.raises(BadInput) as refused:
        with_real_sizes(replace(cachesim.load("A5/A"), model=model), real("GGGA", **given))
    assert str(refused.value) == error
