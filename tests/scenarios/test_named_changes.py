"""For public reports of vLLM and SGLang ``bisect`` names the release in which a request changed, and the pull request;
``diff`` of the two releases names it, too."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from cachesim.base import exits
from cachesim.cli.main import main


class Change(NamedTuple):
    """A change that a report is about. ``thread``: number of the report; ``pull``: of the pull request."""

    thread: int
    case: str                    # id of a scenario
    request: int
    release: str
    pull: int


CHANGES = [
    Change(43559, "vllm-43559-mtp-answer-in-next-turn-hybrid", 1, "vllm@0.26.0", 47728),
    Change(43650, "vllm-43650-state-behind-the-rows-hybrid", 1, "vllm@0.26.0", 46384),
    Change(45238, "vllm-45238-state-in-shared-text-hybrid", 1, "vllm@0.29.0", 52216),
    Change(55600, "vllm-55600-column-of-larger-state-blocks", 1, "vllm@0.32.0", 55601),
    Change(51113, "vllm-51113-chunk-ends-inside-block-hybrid", 1, "vllm@0.27.0", 51113),
    Change(53504, "vllm-53504-mtp-repeat-misses-hybrid", 1, "vllm@0.30.0", 54713),
    Change(53945, "vllm-53945-state-where-eagle-resumes-hybrid", 1, "vllm@0.30.0", 53945),
    Change(57841, "vllm-57841-load-waits-behind-a-stored-chunk", 2, "vllm@0.31.0", 58947),
    Change(52527, "vllm-52527-answer-evaluated-again-hybrid", 1, "vllm@0.29.0", 52216),
    Change(57610, "vllm-57610-window-tail-too-short", 1, "vllm@0.29.0", 52216),
    Change(48535, "vllm-48535-cached-tokens-of-the-second-start", 1, "vllm@0.26.0", 48535),
    Change(58368, "vllm-58368-prompt-tail-misses-with-mtp-hybrid", 1, "vllm@0.31.0", 58368),
    Change(21158, "sglang-27418-auto-keeps-the-running-state", 1, "sglang@0.5.14", 27418),
    Change(17061, "sglang-17061-run-over-a-tombstone", 3, "sglang@0.5.11", 22470),
    Change(29352, "sglang-revived-node-frees-read-slots", 1, "sglang@0.5.15", 29352),
    Change(31643, "sglang-31643-path-refresh", 5, "sglang@0.5.16", 31643),
    Change(18843, "sglang-18843-lfu-without-counts", 5, "sglang@0.5.10", 18843),
    Change(22546, "sglang-22546-prompt-and-answer-fill-the-context", 1, "sglang@0.5.11", 22546),
    Change(36131, "sglang-36131-branch-inside-a-chunk", 1, "sglang@0.5.18", 34653),
    Change(38482, "sglang-38482-split-refreshes-the-rest", 4, "sglang@0.5.20", 38482),
]


def told(argv, capsys):
    """Return the JSON that a command prints."""
    assert main([*argv, "--json"]) in (exits.HOLDS, exits.BROKEN)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("change", [
    pytest.param(one, id=one.case, marks=[pytest.mark.long] * bool(number % 4)) for number, one in enumerate(CHANGES)
])
def test_a_reported_change_has_its_release_and_its_pull_request(change, capsys):
    turns = told(["bisect", change.case], capsys)["requests"][change.request]["turns"]
    [turn] = [turn for turn in turns if turn["new"] == change.release]
    assert f"#{change.pull}" in {named["source"] for cause in turn["causes"] for named in cause["changes"]}
    rules = told(["diff", change.case, "-p", turn["old"], "-p", turn["new"]], capsys)["rules"]
    assert f"#{change.pull}" in {named["source"] for named in rules["changes"]}
