"""The comparison of two checkouts sees an output that differs, and none otherwise."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.equal_outputs import commands, digests
from tests.shared import ROOT

CHOSEN = [["--version"], ["explain", "no such rule"]]


@pytest.mark.long
def test_an_output_that_differs_is_seen_and_no_other(tmp_path):
    """The copy has another version, which the first command prints."""
    shutil.copytree(ROOT / "cachesim", tmp_path / "cachesim", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    file = tmp_path / "cachesim" / "__init__.py"
    file.write_text(file.read_text("utf-8").replace('__version__ = "', '__version__ = "9'), "utf-8")
    here, there = (list(digests(root, Path(sys.executable), CHOSEN)) for root in (ROOT, tmp_path))
    assert all(here) and here[1] == there[1] and here[0] != there[0]


def test_a_process_that_ends_early_is_no_equal_output(tmp_path):
    (tmp_path / "cachesim").mkdir()
    (tmp_path / "cachesim" / "__init__.py").write_text("raise SystemExit(1)\n")
    assert list(digests(tmp_path, Path(sys.executable), CHOSEN)) == ["", ""]


def test_every_scenario_is_run_and_explained():
    words = {tuple(one[:2]) for one in commands()}
    assert {("run", "llama-24143-entry-removed-dense"), ("why", "llama-24143-entry-removed-dense")} <= words
