"""Tests of the notation of a model: parsing, writing, and single-line errors."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.model import Layer, Spec, parse
from cachesim.model.spec import LETTERS

RECORDED = ["AAAA", "W32 A W32 A", "SSSS", "GGGAGGGA", "CCACAC", "C C W32 C W32 C", "HHH", "SSASSA", "GGGA+M"]


@pytest.mark.parametrize("text", RECORDED)
def test_notation_is_read_back(text: str) -> None:
    assert parse(text).notation == text
    assert parse(parse(text).notation) == parse(text)


def test_letters_are_named() -> None:
    assert LETTERS.startswith("layers are A, W, K, N, G, S, C, H")


def test_spaces_are_free() -> None:
    assert parse("CCW32C") == parse(" C C W32 C ") == Spec((Layer("C"), Layer("C"), Layer("W", 32), Layer("C")))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "model '' has no layers (for example GGGA)"),
        ("+M", "model '+M' has no layers (for example GGGA)"),
        ("gA", "model 'gA': 'gA' at column 1 is not a layer (did you mean 'G'?)"),
        ("A-A", f"model 'A-A': '-A' at column 2 is not a layer ({LETTERS})"),
        ("AX", f"model 'AX': unknown kind of layer 'X' ({LETTERS})"),
        ("AW", "model 'AW': a W layer needs a window of 1 to 1048576, not 0 (for example W8)"),
        ("A8", "model 'A8': layer A has no window, yet 8 is given (W8?)"),
        ("AK", "model 'AK': a K layer needs a chunk of 1 to 1048576, not 0 (for example K8)"),
        ("W1048577", "model 'W1048577': a W layer needs a window of 1 to 1048576, not 1048577 (for example W8)"),
        ("I0", "model 'I0': a I layer needs a number of rows from 1 to 1048576, not 0 (for example I8)"),
        ("P6", "model 'P6': a P layer needs a multiple of 4 rows, not 6 (for example P8)"),
        ("D1.8", "model 'D1.8': a D layer needs a ratio of 2 to 1024, not 1 (for example D4.8)"),
        ("D1025.8", "model 'D1025.8': a D layer needs a ratio of 2 to 1024, not 1025 (for example D4.8)"),
        ("D4", "model 'D4': a D layer needs a window of 1 to 1048576, not 0 (for example D4.8)"),
        ("D4.8.2.1", "model 'D4.8.2.1': a D layer has 3 numbers, not 4"),
        ("A8.2", "model 'A8.2': a A layer has no numbers, not 2"),
        ("W8.2", "model 'W8.2': a W layer has 1 numbers, not 2"),
        ("a", "model 'a': 'a' at column 1 is not a layer (did you mean 'A'?)"),
        ("A W8 ?x", f"model 'A W8 ?x': '?x' at column 6 is not a layer ({LETTERS})"),
        ("X8.2", "model 'X8.2': a X layer has no numbers, not 2"),
        ("W99999999", "model 'W99999999': window 99999999... is too large (at most 1048576)"),
        ("A+MA", "model 'A+MA': '+MA' at column 2 is not a layer (the only suffix is +M, at the end)"),
        ("A" * 65, "model '" + "A" * 65 + "': 65 layers, at most 64 layers are allowed"),
    ],
)
def test_bad_notation_is_one_line(text: str, line: str) -> None:
    with pytest.raises(BadInput) as bad:
        parse(text)
    assert str(bad.value) == line


def test_parts() -> None:
    assert [layer.part for layer in parse("A W8 G S C H").layers] == ["base", "swa", "", "", "", "base"]
    recurrences = [layer.recurrence for layer in parse("A W8 G S C H").layers]
    assert [one.taps if one else 0 for one in recurrences] == [0, 0, 4, 4, 3, 4]
    assert [one.state_numbers if one else () for one in recurrences] == [
        (), (), (3 * 192, 1024), (3 * 96, 1024), (2 * 32,), (3 * 96, 1024),
    ]


@pytest.mark.parametrize(("text", "layer"), [
    ("A", Layer("A")), ("W7", Layer("W", window=7)), ("W1048576", Layer("W", window=1_048_576)),
    ("I6", Layer("I", count=6)), ("P8", Layer("P", count=8)), ("D4.8", Layer("D", ratio=4, window=8)),
    ("D2.8.3", Layer("D", ratio=2, window=8, count=3)), ("D1024.1.1", Layer("D", ratio=1024, window=1, count=1)),
])  # fmt: skip
def test_numbers_are_those_of_the_kind_in_their_order(text, layer):
    assert parse(text) == Spec((layer,)) and layer.notation == str(parse(text)) == text


@pytest.mark.parametrize(("layer", "error"), [
    ({"kind": "A", "count": 3}, "layer A has no number count, yet 3 is given"),
    ({"kind": "G", "ratio": 4}, "layer G has no number ratio, yet 4 is given"),
    ({"kind": "G", "window": 4}, "layer G has no window, yet 4 is given (W4?)"),
    ({"kind": "x"}, f"unknown kind of layer 'x' ({LETTERS})"),
])  # fmt: skip
def test_a_layer_refuses_numbers_of_other_kinds(layer, error):
    with pytest.raises(BadInput) as bad:
        Layer(**layer)
    assert str(bad.value) == error


def test_a_layer_knows_its_reach():
    layers = parse("A W8 K6 G C D4.8 I6").layers
    assert [layer.reach for layer in layers] == [0, 8, -6, 0, 0, 8, 0]
    assert [layer.chunked for layer in layers] == [False, False, True, False, False, False, False]


def test_a_model_without_numbers_is_written_without_blanks():
    assert str(parse("A G +M ")) == "AG+M" and parse("AG+M").mtp and not parse("AG").mtp
    assert str(parse("A W8G+M")) == "A W8 G+M"
    assert len(parse("A" * 64).layers) == 64
