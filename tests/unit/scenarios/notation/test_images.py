"""Tests of words that are images: their size in lines and files, and their tokens."""

from __future__ import annotations

import tomllib

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import item_at
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load_text
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import simpler
from cachesim.scenarios.notation.normalise import merged, renamed, split
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, reduced, whole
from cachesim.scenarios.notation.word_lengths import ImageSize
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.toml_writer import to_toml

LINE = "S4.I4x2.B6>r3/S.J4x2.B"
HEAD = {"id": "try", "title": "images", "source": ["cachesim"], "why": "a test", "engine": "llama_cpp", "model": "A",
        "profiles": ["llama_cpp@b11549"]}  # fmt: skip


def test_an_image_has_as_many_tokens_as_fields():
    words, steps = parse(LINE)
    prompt = make_steps(steps, words)[0].request.prompt
    assert len(prompt) == 4 + 8 + 6
    assert [item_at(prompt, place) for place in (3, 4, 11, 12)] == [None, (0, 8, 4), (7, 8, 4), None]


def test_two_images_of_equal_size_have_no_common_token():
    first, second = (set(step.request.prompt) for step in make_steps(parse(LINE).steps, parse(LINE).words))
    assert len(first & second) == 4 + 6


def test_a_file_keeps_the_size():
    line = parse(LINE)
    text = to_toml(HEAD, {"mmproj": "causal"}, line.words, line.steps)
    assert tomllib.loads(text)["words"] == {"S": 4, "I": "4x2", "B": 6, "r": 3, "J": "4x2"}
    scenario = load_text(text)
    assert repr(scenario) == spell(line) == LINE
    assert scenario.steps == from_line(LINE, server={"mmproj": "causal"}).steps


@pytest.mark.parametrize(("line", "wrong"), [
    ("S4.I4x2[1:].B6", "column 4, request 0: slice I[1:8]: an image cannot be cut"),
    ("S4>I4x2", "column 4, request 0: 'I' is an image, which no answer has"),
    ("I4x2/I8", "column 6, request 1: word 'I' has two lengths, 4x2 and 8"),
    ("I4x0", "its length is 4x0, it must be at least 1"),
    ("I91x91", "image 'I' has 8,281 tokens, at most 8,191 are possible"),
])  # fmt: skip
def test_impossible_images_are_refused(line, wrong):
    with pytest.raises(BadInput) as bad:
        parse(line)
    assert wrong in str(bad.value)


@pytest.mark.parametrize("size", ["", "4", "4x", "x2", "4x2x1", "4 x 2", "-4x2"])
def test_only_sizes_are_texts_of_a_word_in_a_file(size):
    line = parse(LINE)
    text = to_toml(HEAD, {"mmproj": "causal"}, line.words, line.steps)
    with pytest.raises(BadInput, match='must be an integer, or the size of an image such as "4x2"'):
        load_text(text.replace('I = "4x2"', f'I = "{size}"'))


def test_an_engine_without_images_refuses_them():
    from cachesim.api import run

    with pytest.raises(BadInput, match="images"):
        run(from_line(LINE, profiles=("mlx_lm@0.31.3",), model="A"))


def test_normalised_lines_keep_images_whole():
    line = parse("S4.I4x2.B6/S[:2].I.B")
    assert spell(merged(split(line))) == "S_A2.S_B2.I4x2.B6/S_A.I.B"
    assert renamed(line).words["B"] == line.words["I"]
    assert spell(renamed(line)) == "A4.B4x2.C6/A[:2].B.C"


def test_an_image_remains_one_while_it_shrinks():
    case = ShrinkCase(parse("S4.I4x2.B6"))
    row = whole(case)
    assert spell(reduced(case, row).line) == "S4.I4x2.B6"
    assert spell(reduced(case, row._replace(words=(4, 3, 6))).line) == "S4.I3x1.B6"
    assert spell(reduced(case, row._replace(words=(4, 0, 6))).line) == "S4.B6"
    lines = [spell(one.line) for one in simpler(case)]
    assert {"S4.I4x1.B6", "S4.I1x1.B6", "S4.I7x1.B6"} & {*lines} == {"S4.I4x1.B6", "S4.I1x1.B6", "S4.I7x1.B6"}
    assert all(isinstance(one.line.words.get("I", ImageSize(1, 1)), ImageSize) for one in simpler(case))
