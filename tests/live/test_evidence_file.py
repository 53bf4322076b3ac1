"""Tests of evidence entries that are made from recordings of real servers."""

from __future__ import annotations

import json
from pathlib import Path

from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from tests.live.evidence_file import entry_of, requests_of, store

DATA = Path(__file__).parents[1] / "data" / "llama_cpp"


def recording(name):
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def test_a_request_has_its_counts_and_both_answers():
    data = recording("mamba2-bug-stale-ckpt-pos0")
    found = requests_of(data)
    assert [one["n"] for one in found if one["differs"]] == [2, 3]
    first, other = data["steps"][0], data["steps"][2]
    assert found[0] == {
        "n": 0, "cache_n": first["response"]["cache_n"], "prompt_n": first["response"]["prompt_n"],
        "warm": first["response"]["tokens"], "cold": first["response"]["tokens"],
        "max_dlogprob": first["cold"]["max_dlogprob"], "differs": False,
    }  # fmt: skip
    assert (found[2]["warm"], found[2]["cold"]) == (other["response"]["tokens"], other["cold"]["tokens"])


def test_further_completions_stand_beside_their_parent():
    found = requests_of(recording("qwen35-corner-bug-child-split-nockpt"))
    assert [one["differs"] for one in found if "children" in one] == [False]
    assert [child["differs"] for one in found for child in one.get("children", ())] == [True]


def test_what_has_no_answer_says_why():
    ended = requests_of(recording("llama-bug-draft-trim-mamba2"))
    assert ended[-1]["died"] == -6 and "failed to remove sequence 0" in ended[-1]["fatal"][0]
    refused = [one for one in requests_of(recording("llama-bug-slotfile-draft-longer")) if "status" in one]
    assert {one["status"] for one in refused} == {500} and all(one["error"] for one in refused)
    cancelled = requests_of(recording("falconh1-cancelled-1010"))
    assert any(one.keys() == {"n", "cancelled"} for one in cancelled)
    assert {"n": 1, "action": "save"} in requests_of(recording("qwen35mtp-slotfile-mtp"))


def test_entries_are_kept_one_per_line_and_replaced_by_id(tmp_path):
    scenario, file = load(corpus_files()["llama-one-token-checkpoint"]), tmp_path / "new" / "b11549.json"
    entry = entry_of(scenario, "llama_cpp@b11549", recording("mamba2-bug-stale-ckpt-pos0"), True)
    store(file, "b11549", "version: 11549", {"d2": entry, "d1": entry})
    store(file, "b11549", "version: 11549", {"d1": {**entry, "as_simulated": False}})
    data = json.loads(file.read_text("utf-8"))
    assert (data["build"], data["version"], list(data["scenarios"])) == ("b11549", "version: 11549", ["d1", "d2"])
    assert [one["as_simulated"] for one in data["scenarios"].values()] == [False, True]
    assert len(file.read_text("utf-8").splitlines()) == 4 and len(entry["scenario"]) == 64
