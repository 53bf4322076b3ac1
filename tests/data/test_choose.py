"""Choosing recordings changes only the folders that are chosen from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.data.choose import HERE, copy


@pytest.fixture
def folders(tmp_path):
    """Return a folder of recordings, and a selection with an old file in it, a file of `make peers`, and log lines."""
    traces, here = tmp_path / "traces", tmp_path / "data"
    for file in (traces / "ik_llama/new.json", here / "ik_llama/old.json", here / "mlx_lm/bursts.json",
                 here / "log_lines/b1.jsonl", here / "mine/other.json"):  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    return traces, here


def held(here):
    return sorted(str(file.relative_to(here)) for file in here.rglob("*") if file.is_file())


def test_only_source_folders_are_replaced(folders):
    traces, here = folders
    assert copy([traces / "ik_llama/new.json"], traces, here) == 2
    assert held(here) == ["ik_llama/new.json", "log_lines/b1.jsonl", "mine/other.json", "mlx_lm/bursts.json"]


def test_nothing_is_removed_where_a_chosen_file_is_missing(folders):
    traces, here = folders
    before = held(here)
    with pytest.raises(FileNotFoundError, match="nothing was changed"):
        copy([traces / "ik_llama/new.json", traces / "ik_llama/gone.json"], traces, here)
    assert held(here) == before


def test_the_script_without_recordings_changes_nothing(tmp_path):
    before = held(HERE)
    words = [sys.executable, "choose.py", tmp_path]
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nothing was changed" in done.stderr
    assert held(HERE) == before
