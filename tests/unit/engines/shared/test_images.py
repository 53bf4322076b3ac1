"""Sizes of images by the kind of projector."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.images import image_sizes


@pytest.mark.parametrize(("server", "sizes"), [
    ({}, ()), ({"mmproj": ""}, ()), ({"mmproj": "gemma3"}, ("3x3",)),
    ({"mmproj": "causal"}, ("2x2", "4x2", "1x6", "4x4")),
])  # fmt: skip
def test_a_projector_decides_on_the_sizes(server, sizes):
    assert image_sizes(server) == sizes
