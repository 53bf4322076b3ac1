"""Tests of imported request bodies under several rule sets and engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from tests.unit.tools.request_bodies import client_shapes as shapes

AGENT = Path(__file__).with_name("agent.jsonl")


def called(capsys, *words):
    code = main(["import", str(AGENT), *words, "-q"])
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


def test_the_table_follows_the_cause_and_says_that_tokens_are_estimated(capsys):
    _, out, _ = called(capsys, "-p", "llama_cpp", "-p", "vllm", "--model", "A")
    lines = out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("reused of"))
    first, heads = lines[place : place + 2]
    assert place and lines[0].startswith("The date or time in the system prompt")
    assert first == "reused of 1177 prompt tokens, by request (tokens are estimated)"
    assert set(heads.split()) == {"#", "request", "prompt", "llama_cpp", "vllm"}


def test_one_rule_set_has_no_table(capsys):
    _, out, _ = called(capsys, "-p", "vllm", "-p", "vllm", "--model", "A", "--json")
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


FIVE = ["llama_cpp@b11549", "ik_llama@2491", "mlx_lm@0.32.2", "vllm@0.33.0", "sglang@0.5.23"]
SHAPES = [shapes.chat, shapes.agent, shapes.anthropic, shapes.pictures, shapes.responses, shapes.named, shapes.story]


@pytest.mark.part(3)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_kind_of_client_runs_under_five_engines(capsys, tmp_path, shape):
    file = tmp_path / "bodies.jsonl"
    bodies = shape()
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    words = [word for name in FIVE for word in ("-p", name)]
    assert main(["import", str(file), *words, "--model", "A", "--json", "-q"]) == exits.HOLDS
    compared = json.loads(capsys.readouterr().out)["bodies"]["compared"]
    assert [one["profile"] for one in compared] == FIVE
    assert all(len(one["requests"]) == len(bodies) for one in compared)
    assert all(one["reused"] > 0 for one in compared), "a history that only grows is reused by every engine"
