"""Tests that commands print the same under ``python -OO``, which strips docstrings and assertions. All commands over
the corpus: ``make optimized``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.shared import ROOT

SEED = "scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml"
SMOKE = [
    ["explain", "ML-LRU-HAND.copy"],
    ["bisect", "P100/P", "-p", "ik_llama@main"],
    ["profiles", "show", "mlx_lm@0.32.2"],
    ["why", SEED, "3", "-p", "llama_cpp@b10587"],
    ["import", "tests/unit/tools/server_logs/default_verbosity.log"],
]
"""``explain`` and ``bisect`` read docstrings."""
ALL = f"""
from cachesim.cli.main import main
for words in {SMOKE!r}:
    print(words[0], main(words), flush=True)
"""


def printed(*options):
    """Return what a process of Python with these options prints: rule sets that other tests compose are not there."""
    done = subprocess.run([sys.executable, *options, "-c", ALL], capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout, done.stderr


@pytest.mark.long
def test_stripped_docstrings_change_nothing():
    plain, errors = printed()
    assert "bisect 0\n" in plain and "#2105" in plain and "Hand out a deep copy" in plain
    assert printed("-OO") == (plain, errors)
