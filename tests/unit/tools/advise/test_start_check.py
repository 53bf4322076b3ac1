"""``advise`` without requests: what a configuration never reuses, wastes, refuses or never finishes."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from shlex import split

import pytest

from cachesim.cli.main import main

LONG_BLOCKS = "--server 'vllm serve Qwen/Qwen3-8B --block-size 128 --max-model-len 2000'"
FINDINGS = [
    ("-p llama_cpp --model A -c 4096 -np 1 --cache-ram 0 --context-shift",
     [("endless", None), ("unanswered", {"ctx_size": 4352}), ("never", {"parallel": -1}),
      ("never", {"cache_ram": 8192})]),
    (LONG_BLOCKS, [("unanswered", {"max_model_len": 2001}), ("waste", {"block_size": 16})]),
    ("-p vllm --model A --num-gpu-blocks-override 30",
     [("unanswered", {"num_gpu_blocks": 31}), ("long", {"num_gpu_blocks": 37}), ("waste", {"num_gpu_blocks": 34}),
      ("waste", None)]),
    ("-p sglang --model A --disable-radix-cache", [("never", {"disable_radix_cache": False})]),
    ("-p mlx_lm --model A --prompt-cache-size 2", [("never", {"prompt_cache_size": 9})]),
    ("-p ik_llama --model A", [("endless", None)]),
]  # fmt: skip


@cache
def check(text):
    """Return the exit code and the data of a check, which takes a second."""
    with redirect_stdout(StringIO()) as out:
        code = main(["advise", *split(text), "--json"])
    return code, json.loads(out.getvalue())


def best(finding):
    settings = finding["settings"]
    if settings is None:
        return None
    found = settings["together"] or settings["cures"][0]
    return {option["name"]: option["value"] for option in found["options"]}


@pytest.mark.parametrize(("server", "findings"), FINDINGS)
def test_each_finding_has_the_setting_that_changes_it(server, findings):
    code, data = check(server)
    found = [(one["kind"], best(one)) for one in data["start"][0]["findings"]]
    assert (code, found) == (0, findings)


def test_the_example_of_a_finding_shows_it(capsys):
    _, data = check(LONG_BLOCKS)
    *_, finding = data["start"][0]["findings"]
    main([*split(finding["command"])[1:], "--json"])
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert finding["shortest"]["reused"] == requests[1]["cache_n"] < finding["shortest"]["reusable"]


def test_a_server_that_reuses_everything_has_no_finding():
    _, data = check("-p llama_cpp --model A")
    assert data["start"][0]["findings"] == [] and len(data["start"][0]["fine"]) == 7


@pytest.mark.parametrize("words", [
    "-p vllm --model A --num-gpu-blocks-override 4 --max-model-len 4000", "-p vllm --model A --out x", "",
])  # fmt: skip
def test_a_server_that_does_not_start_and_an_option_for_requests_are_refused(words):
    code, data = check(words)
    assert code == 2 and data["error"]["kind"] == "input"
