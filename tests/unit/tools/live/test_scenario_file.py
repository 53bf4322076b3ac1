"""Scenario files with results, and observations of a real server."""

from __future__ import annotations

import tomllib

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export.scenario_file import observed, scenario_file, version
from cachesim.tools.live.llama_server.export.script import make_script
from tests.shared import SMALL
from tests.unit.tools.live.stand_in import stand_in

PROFILE = "llama_cpp@b11549"


def table(scenario, profile=PROFILE):
    return tomllib.loads(scenario_file(scenario, profile, "case"))


def line(text, model="A", **server):
    return from_line(text, model=model, server=server)


def test_a_file_has_the_requests_and_their_results():
    found = table(line("A20/A.B5", parallel=1))
    assert (found["id"], found["engine"], found["model"], found["profiles"]) == ("case", "llama_cpp", "A", [PROFILE])
    assert found["words"] == {"A": 20, "B": 5} and found["server"] == {"parallel": 1} and "symptom" not in found
    assert found["expect"][PROFILE] == {"cache_n": [0, 20], "prompt_n": [20, 5], "checkpoints": [[], []]}


@pytest.mark.parametrize(("scenario", "expected"), [
    (line("A5/B10/B[:3].C3", "GA", parallel=1), {"broken": [2]}),
    (line("A900/B5", ctx_size=512, parallel=1), {"status": [400, 200]}),
])  # fmt: skip
def test_wrong_and_refused_requests_are_expected_if_there_are_any(scenario, expected):
    found = table(scenario)["expect"][PROFILE]
    assert {name: found[name] for name in found if name not in ("cache_n", "prompt_n", "checkpoints")} == expected


def test_a_request_at_which_the_process_ends_is_expected_to_end_it():
    assert table(load(corpus_files()["llama-repair-shift-without-layers"]))["expect"][PROFILE]["died"] == [1]


def test_a_bundled_scenario_keeps_its_own_words():
    scenario = load(corpus_files()["llama-one-token-checkpoint"])
    found = table(scenario)
    assert (found["title"], found["why"], found["source"]) == (scenario.title, scenario.why, list(scenario.source))
    assert found["symptom"] == scenario.symptom and found["words"] == dict(scenario.words)


def test_words_that_a_file_spells_in_pieces_stay_so():
    """Their prompts are cut, and answers consist of them."""
    scenario = load(corpus_files()["ik-2105-blank-skipped-in-comparison"])
    found = table(scenario, "ik_llama@main")
    text = corpus_files()["ik-2105-blank-skipped-in-comparison"].read_text("utf-8")
    assert found["words"] == tomllib.loads(text)["words"] and found["expect"]["ik_llama@main"]["broken"] == [1, 3]


# Observations of a server


@pytest.fixture
def seen(tmp_path):
    """Return the observations of a line on a stand-in, which answers a prompt that it has seen wrongly."""
    def of(text, **server):
        script = make_script(from_line(text, model="A", server={**SMALL, **server}), PROFILE)
        return observed(script, stand_in(tmp_path, mode="remembers"), tmp_path / "tiny-A.gguf")

    return of


def test_the_outcome_of_each_request_and_the_log_of_the_wrong_ones_are_observed(seen):
    found = seen("A5>1/B4>1/A>1/A>1")
    assert found.version == "version: 11549 (abc)" and [one[:2] for one in found.came] == ["0.", "1.", "2.", "3."]
    assert ["WRONG" in one for one in found.came] == [False, False, True, True]
    assert "cache_n 0, evaluated 5" in found.came[2] and "token 0 " in found.came[2]
    assert found.log[0].endswith("request 2") and ["launch_slot_" in one for one in found.log].count(True) == 2
    assert not any("all slots are idle" in one or "a banner" in one or "control" in one for one in found.log)


def test_of_requests_that_were_sent_together_each_has_its_own_outcome(seen):
    found = seen("A5>1/A>1/B4>1{together}", parallel=2)
    assert [one[:2] for one in found.came] == ["0.", "1.", "2."]
    assert ["WRONG" in one for one in found.came] == [False, True, False] and found.log[0].endswith("request 1")


def test_a_long_log_is_cut(seen, monkeypatch):
    monkeypatch.setattr("cachesim.tools.live.llama_server.export.scenario_file.LINES", 3)
    assert len(seen("A5>1/A>1").log) == 3


def test_the_version_of_a_server_is_its_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be run"):
        version(tmp_path / "nothing")
    assert version(stand_in(tmp_path, "loading")) == version(stand_in(tmp_path, "", "other"))
    assert "9999 (abc)" in version(stand_in(tmp_path, "x\nversion: 9999 (abc)\ny", "well"))
