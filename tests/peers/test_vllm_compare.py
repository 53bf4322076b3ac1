"""The comparison with vLLM where vLLM is not installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from cachesim.base import exits


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_one_line_names_the_command_that_installs_it():
    ended = subprocess.run([sys.executable, "-m", "tests.peers.vllm_compare"], capture_output=True, text=True)
    assert ended.returncode == exits.NOTHING
    assert ended.stderr.count("\n") == 1 and "run `make peers`" in ended.stderr
