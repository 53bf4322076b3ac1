"""``check`` on a server with OpenAI's paths that plays the decisions of an engine without slots."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main
from tests.unit.tools.conformance.http_check.block_stand_in import SimulatedBlocks
from tests.unit.tools.conformance.http_check.stand_in import serving

QUICK = ("--only", "same", "--only", "books", "--requests", "400", "--json")


def checked(capsys, server, *histories):
    with serving(server.complete, get=server.get) as url:
        code = main(["check", url, *QUICK, *(word for line in histories for word in ("--history", line))])
    out, err = capsys.readouterr()
    return code, {one["name"]: one for one in json.loads(out)["properties"]}, err


@pytest.mark.long
def test_a_sound_server_is_asked_with_salts_and_says_that_it_plays_decisions(capsys):
    server = SimulatedBlocks("vllm@0.33.0", "A", block_size=4, num_gpu_blocks=400)
    code, found, err = checked(capsys, server, "A20/A[:10].B3", "A33>a3/A.a.B9/A[:30].C9")
    assert code == 0 and "vllm@0.33.0, simulated decisions" in err and "cold answers: cache_salt" in err
    assert found["branch"]["state"] == "ok" == found["accounting"]["state"] and found["branch"]["reused"]


@pytest.mark.long
def test_a_state_under_a_longer_prefix_is_found_with_its_history(capsys):
    """A chunk ends inside a large block of states, whose key then stands for more tokens than the state."""
    server = SimulatedBlocks("vllm@0.33.0", "AS", block_size=4, mamba_block_size=16, num_gpu_blocks=400)
    code, found, _ = checked(capsys, server, "A7/A.B9.C5/A.B.D1")
    wrong = [one for one in found.values() if one["state"] == "failed"]
    assert code == 1 and wrong and all("A7/A.B9.C5/A.B.D" in one["finding"]["line"] for one in wrong)


def test_the_served_counts_are_those_of_the_simulator():
    server = SimulatedBlocks("vllm@0.33.0", "A", block_size=4, num_gpu_blocks=64)
    ask = {"prompt": [*range(100, 114)], "max_tokens": 1}
    cached = [server.complete({**ask, **more})[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
              for more in ({}, {}, {"cache_salt": "x"}, {"cache_salt": "x"})]  # fmt: skip
    assert cached == [0, 12, 0, 12]
    texts = {server.complete({**ask, "cache_salt": salt})[1]["choices"][0]["text"] for salt in ("x", "y", "z")}
    assert len(texts) == 1
