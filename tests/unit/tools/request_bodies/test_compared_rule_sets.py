"""Tests of imported request bodies under several rule sets and engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main

AGENT = Path(__file__).with_name("agent.jsonl")


def called(capsys, *words):
    code = main(["import", str(AGENT), *words])
    return code, *capsys.readouterr()


def test_every_rule_set_has_its_reused_tokens(capsys):
    code, out, _ = called(capsys, "-p", "llama_cpp", "-p", "vllm", "-p", "sglang", "--model", "A", "--json")
    data = json.loads(out)["bodies"]
    assert code == exits.HOLDS
    found = {one["profile"].partition("@")[0]: one for one in data["compared"]}
    assert list(found) == ["llama_cpp", "vllm", "sglang"]
    assert found["llama_cpp"]["requests"] == [row["simulated"] for row in data["requests"]]
    assert all(one["reused"] == sum(one["requests"]) and len(one["requests"]) == 4 for one in found.values())
    assert found["vllm"]["reused"] % 16 == 0 and found["vllm"]["reused"] <= found["sglang"]["reused"]


def test_the_table_is_printed_first_and_says_that_tokens_are_estimated(capsys):
    _, out, _ = called(capsys, "-p", "llama_cpp", "-p", "vllm", "--model", "A")
    first, heads = out.splitlines()[:2]
    assert first == "reused of 1177 prompt tokens, by request (tokens are estimated)"
    assert set(heads.split()) == {"#", "request", "prompt", "llama_cpp", "vllm"}


def test_one_rule_set_has_no_table(capsys):
    _, out, _ = called(capsys, "-p", "vllm", "-p", "vllm", "--model", "A")
    assert "by request" not in out
    _, out, _ = called(capsys, "-p", "vllm", "--model", "A", "--json")
    assert json.loads(out)["bodies"]["compared"] == []


@pytest.mark.parametrize(("setting", "reused"), [("enable_prefix_caching=false", (False, False)),
                                                 ("parallel=1", (True, True))])  # fmt: skip
def test_an_option_goes_to_the_engines_that_have_it(capsys, setting, reused):
    words = "-p", "llama_cpp", "-p", "vllm", "--model", "A", "--set", setting, "--json"
    data = json.loads(called(capsys, *words)[1])["bodies"]
    assert tuple(one["reused"] > 0 for one in data["compared"]) == reused


def test_an_unknown_rule_set_is_refused_whatever_its_place(capsys):
    code, out, err = called(capsys, "-p", "llama_cpp", "-p", "vllm@nosuch")
    assert (code, out) == (exits.BAD_INPUT, "") and "unknown profile 'vllm@nosuch'" in err
