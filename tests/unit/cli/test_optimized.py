"""Tests that commands print the same under ``python -OO``, which strips docstrings and assertions. All commands over
the corpus: ``make optimized``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cachesim.cli.main import main
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


@pytest.mark.long
def test_stripped_docstrings_change_nothing(capsys, monkeypatch):
    done = subprocess.run([sys.executable, "-OO", "-c", ALL], capture_output=True, text=True, cwd=ROOT, check=False)
    monkeypatch.chdir(ROOT)
    for words in SMOKE:
        print(words[0], main(words))
    plain = capsys.readouterr()
    assert "bisect 0\n" in plain.out and "#2105" in plain.out and "Hand out a deep copy" in plain.out
    assert (done.stdout, done.stderr) == (plain.out, plain.err)
