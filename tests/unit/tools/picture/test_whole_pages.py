"""Whole pages of small runs: every text, legend and number for the script is that of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tools.picture.whole_pages import FOLDER, PAGES, written


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    assert written(name, tmp_path) == (FOLDER / f"{name}.txt").read_text("utf-8")
