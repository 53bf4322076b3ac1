"""Tests of images in older builds."""

from __future__ import annotations

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.base.media_items import image_items
from tests.unit.engines.llama_cpp.talk import Talk, word

TEXT, MORE = word("t", 20), word("m", 10)
CAT, DOG, COW = (image_items(name, 8, 8) for name in ("cat", "dog", "cow"))


def talk(build):
    return Talk("AA", build, "provenance", mmproj="causal", parallel=1)


@pytest.mark.parametrize(("build", "status"), [("b10587", 500), ("b11312", 500), ("b11549", 200)])
def test_a_list_is_not_cut_between_two_images_before_b11549(build, status):
    one = talk(build)
    one.ask((*TEXT, *CAT, *DOG, *MORE))
    assert one.ask((*TEXT, *CAT, *COW, *MORE)).status == status
    assert one.ask((*TEXT, *CAT, *DOG, *MORE)).cache_n == (45 if status == 500 else 28)


@pytest.mark.parametrize("build", ["b10587", "b11549"])
def test_a_list_is_cut_after_and_before_an_image_with_text(build):
    one = talk(build)
    one.ask((*TEXT, *CAT, *MORE, *DOG, *MORE))
    assert one.ask((*TEXT, *CAT, *MORE, *COW, *MORE)).cache_n == 38
    assert one.ask((*TEXT, *CAT, *word("n", 10))).cache_n == 28
    assert one.ask((*TEXT, *DOG, *MORE)).cache_n == 20


def test_images_of_builds_before_b10587_are_refused():
    with pytest.raises(NotInBuild, match="from b10587 on"):
        talk("b9765").ask((*TEXT, *CAT, *MORE))
