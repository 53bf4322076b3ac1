"""Tests of the repetition of recordings; with LLAMA_SERVER also on a real server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.live.again import again, difference, kept, main, script
from tests.shared import MODELS, TRACES, needs

RECORDED = TRACES / "llama_cpp_b11549"
SERVER = os.environ.get("LLAMA_SERVER", "")
STEP = {
    "i": 1, "op": "parallel", "why": "x", "racy": True, "events": [{"ev": "cancel"}, {"ev": "release", "n_tokens": 3}],
    "steps": [{"i": "1.0", "op": "completion", "request": {"prompt": [1]}, "response": {"status": 200},
               "cold": {"equal": True, "max_dlogprob": 0.1}}],
}  # fmt: skip
NAMES = (
    "qwen35-bug-stale-ckpt-adjacent", "gemma3-seed24143-dense", "llama-bug-draft-trim-mamba2", "mamba2-ngram",
    "llama-corner-children", "qwen35mtp-slotfile-mtp", "gemma3-corner-kv-loadfail",
)  # fmt: skip


def test_a_script_has_no_results():
    assert script(STEP) == {
        "op": "parallel", "why": "x", "steps": [{"op": "completion", "request": {"prompt": [1]}}],
    }  # fmt: skip


def test_what_is_compared():
    found = kept(STEP)
    assert found["events"] == [{"ev": "release", "n_tokens": 3}]
    assert found["steps"][0]["cold"] == {"equal": True}
    assert kept({"died": {"returncode": -6, "fatal": ["x"]}})["died"] == -6


def test_the_first_difference_is_named():
    one = {"events": [{"ev": "release", "n_tokens": 3}]}
    assert difference(one, one) == ""
    assert difference(one, {"events": [{"ev": "release", "n_tokens": 4}]}) == ".events[0].n_tokens: recorded 3, now 4"
    assert difference(one, {"events": []}) == ".events: 1 and 0 entries"
    assert difference(one, {}) == ": only one has events"


@pytest.mark.slow
@pytest.mark.skipif(not SERVER, reason="LLAMA_SERVER names no binary of b11549")
@needs(RECORDED)
@pytest.mark.parametrize("name", NAMES)
def test_the_real_server_does_it_again(name):
    found = again(RECORDED / f"{name}.json", Path(SERVER), MODELS)
    assert found.differs == [] and found.steps


@needs(RECORDED)
def test_a_binary_that_is_none_is_one_line(tmp_path, capsys):
    file = RECORDED / f"{NAMES[0]}.json"
    assert main(["--server", str(tmp_path / "none"), str(file)]) == 2
    assert capsys.readouterr().err == f"{file.name}: {tmp_path / 'none'}: not an executable file\n"
