"""Whole pictures of small runs: every shape stands where it stood."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tools.picture.whole_pictures import FOLDER, PICTURES, drawn


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    assert drawn(name, tmp_path) == (FOLDER / name).read_text("utf-8")
