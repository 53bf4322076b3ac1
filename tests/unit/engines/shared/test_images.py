"""Sizes of images by the kind of projector."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.ik_llama.profiles.main import MAIN
from cachesim.engines.shared.images import check_images, image_sizes, read_projector, write_projector


@pytest.mark.parametrize(("server", "sizes"), [
    ({}, ()), ({"mmproj": ""}, ()), ({"mmproj": "gemma3"}, ("3x3",)),
    ({"mmproj": "causal"}, ("2x2", "4x2", "1x6", "4x4")),
])  # fmt: skip
def test_a_projector_decides_on_the_sizes(server, sizes):
    assert image_sizes(server) == sizes


@pytest.mark.parametrize(("file", "kind"), [("a/mmproj-Gemma3.gguf", "gemma3"), ("gemma/qwen2vl.gguf", "causal"),
                                            ("gemma", "gemma3")])  # fmt: skip
def test_a_file_name_tells_the_projector(file, kind):
    assert read_projector(file) == kind


@pytest.mark.parametrize(("options", "words"), [
    ({}, []), ({"mmproj": "gemma3"}, ["--mmproj", "MODELS/tiny-mmproj-gemma3.gguf"]),
    ({"mmproj": "causal"}, ["--mmproj", "MODELS/tiny-mmproj-qwen2vl.gguf"]),
])  # fmt: skip
def test_a_projector_is_a_flag_with_a_file(options, words):
    assert write_projector(options) == words


@pytest.mark.parametrize(("most", "projector", "images", "error", "hint"), [
    (2, "causal", 0, "", ""), (2, "", 0, "", ""), (2, "causal", 2, "", ""), (0, "", 0, "", ""),
    (2, "", 1, "the prompt has an image", "server option mmproj names the kind of a projector"),
    (2, "causal", 3, "the prompt has 3 images, at most 2 are simulated", ""),
    (0, "", 1, "images are not known of", "from b9 on"),
])  # fmt: skip
def test_images_need_a_projector_and_rules_that_know_them(most, projector, images, error, hint):
    rules = replace(MAIN, most_images=most)
    prompt = (7,)
    for name in "abc"[:images]:
        prompt = (*prompt, *image_items(name, 4, 2), 8)
    if not error:
        check_images(rules, projector, Request(prompt), "b9")
        return
    with pytest.raises(BadInput) as refused:
        check_images(rules, projector, Request(prompt), "b9")
    assert error in str(refused.value) and refused.value.hint == hint
    assert isinstance(refused.value, NotInBuild) is not (most and not projector)
