"""``advise`` without requests: what a configuration never reuses, wastes, refuses or never finishes."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from shlex import split

import pytest

from cachesim.cli.main import main

FEW_BLOCKS = "-p vllm --model A --num-gpu-blocks-override 30"
FINDINGS = [
    ("-p llama_cpp --model A -c 512 -np 1 --cache-ram 0 --context-shift",
     [("endless", "--no-context-shift"), ("unanswered", {"ctx_size": 768}), ("never", {"parallel": -1}),
      ("never", {"cache_ram": 8192})], 4),
    ("-p llama_cpp --model A -c 1024", [("unanswered", {"ctx_size": 1280})], 7),
    (FEW_BLOCKS,
     [("unanswered", {"num_gpu_blocks": 31}), ("long", {"num_gpu_blocks": 37}), ("waste", {"num_gpu_blocks": 34}),
      ("waste", None)], 0),
    ("-p sglang --model A --disable-radix-cache --context-length 200",
     [("unanswered", {"context_len": 0}), ("never", {"disable_radix_cache": False})], 0),
    ("-p mlx_lm --model A --prompt-cache-size 2", [("never", {"prompt_cache_size": 9})], 6),
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
        return finding.get("cure") or None
    found = settings["together"] or settings["cures"][0]
    return {option["name"]: option["value"] for option in found["options"]}


@pytest.mark.parametrize(("server", "findings", "fine"), FINDINGS)
def test_each_finding_has_the_setting_that_changes_it(server, findings, fine):
    code, data = check(server)
    [start] = data["start"]
    found = [(one["kind"], best(one)) for one in start["findings"]]
    assert (code, found, len(start["fine"])) == (0, findings, fine)


def test_the_example_of_a_finding_shows_it(capsys):
    _, data = check(FEW_BLOCKS)
    *_, finding = data["start"][0]["findings"]
    main([*split(finding["command"])[1:], "--json"])
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert finding["shortest"]["reused"] == requests[1]["cache_n"] < finding["shortest"]["reusable"]


@pytest.mark.parametrize("words", [
    "-p vllm --model A --num-gpu-blocks-override 4 --max-model-len 4000", "-p vllm --model A --out x", "",
])  # fmt: skip
def test_a_server_that_does_not_start_and_an_option_for_requests_are_refused(words):
    code, data = check(words)
    assert code == 2 and data["error"]["kind"] == "input"
