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
