"""Tests that every command prints the same under ``python -OO``, which strips docstrings and assertions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cachesim.cli.command_list import COMMANDS

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[3]
SEED = "scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml"
SMOKE = {
    "run": [SEED, "S40.A60/S.B5", "-p", "llama_cpp@b10587"],
    "why": [SEED, "3", "-p", "llama_cpp@b10587"],
    "advise": [SEED, "-p", "llama_cpp@b10587"],
    "memory": ["qwen3-next", "--memory", "16GiB"],
    "diff": [SEED, "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b10587"],
    "explain": ["ML-LRU-HAND.copy"],
    "profiles": ["show", "mlx_lm@0.32.2"],
    "scenarios": ["24143"],
    "real": ["list"],
    "options": ["llama_cpp", "ctx-checkpoints"],
    "lesson": ["1"],
    "completion": ["bash"],
    "import": ["tests/unit/tools/server_logs/default_verbosity.log"],
    "watch": ["--once", "tests/unit/tools/server_logs/default_verbosity.log"],
    "export": [SEED, "--to", "toml"],
    "bisect": ["P100/P", "-p", "ik_llama@main"],
    "shrink": ["A9.B3/A", "-p", "ik_llama@1889-base", "--model", "GA"],
    "fuzz": ["-p", "ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--examples", "5"],
    "repair": ["ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--examples", "5"],
    "workload": ["tests/workloads/data/agents.json", "--scale", "64"],
    "replay": ["tests/data/llama_cpp/mamba2-bug-stale-ckpt-pos0.json", "--mode", "provenance"],
}
"""A small call of every command; ``bisect`` and ``explain`` read docstrings."""

ELSEWHERE = {"merge", "record", "verify", "check", "playground"}
"""They need a real server or folders that another command has made, or do not end."""

ALL = f"""
from cachesim.cli.main import main
for command, rest in {SMOKE!r}.items():
    print(command, main([command, *rest]), flush=True)
"""


def printed(*flags):
    """Return the output of all commands, in a process with these flags of the interpreter."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", ALL], capture_output=True, text=True, cwd=ROOT, check=False, timeout=600
    )
    return done.stdout + done.stderr


def test_stripped_docstrings_change_nothing():
    plain = printed()
    assert "bisect 0\n" in plain and "#2105" in plain and "Hand out a deep copy" in plain and "Traceback" not in plain
    assert printed("-OO") == plain


def test_every_command_is_tried():
    assert SMOKE.keys() | ELSEWHERE == COMMANDS.keys()
