"""Scenario files with results, and observations of a real server."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export import scenario_file as module
from cachesim.tools.live.llama_server.export.scenario_file import _came, _Log, scenario_file, version
from tests.unit.tools.live.test_hang_ups import launch

PROFILE = "llama_cpp@b11549"


def table(line, model="A", **server):
    return tomllib.loads(scenario_file(from_line(line, model=model, server=server), PROFILE, "case"))


def test_a_file_has_the_requests_and_their_results():
    found = table("A20/A.B5", parallel=1)
    assert (found["id"], found["engine"], found["model"], found["profiles"]) == ("case", "llama_cpp", "A", [PROFILE])
    assert found["why"] == f"Requests A20/A.B5 under {PROFILE}." and found["words"] == {"A": 20, "B": 5}
    assert found["source"] == ["cachesim"] and found["server"] == {"parallel": 1} and "symptom" not in found
    assert found["expect"][PROFILE] == {"cache_n": [0, 20], "prompt_n": [20, 5], "checkpoints": [[], []]}


def test_wrong_and_refused_requests_are_expected_if_there_are_any():
    wrong = table("A5/B10/B[:3].C3", "GGGA", parallel=1)["expect"][PROFILE]
    assert wrong["broken"] == [2] and "status" not in wrong and "died" not in wrong and "undecided" not in wrong
    refused = table("A900/B5", ctx_size=512, parallel=1)["expect"][PROFILE]
    assert refused["status"] == [400, 200] and "broken" not in refused


@pytest.mark.parametrize(("done", "inexact", "came"), [
    ({"i": 3, "response": {"cache_n": 4, "prompt_n": 5}}, [], ["7. cache_n 4, evaluated 5: correct answer"]),
    ({"i": 3, "response": {"status": 200}}, [], ["7. correct answer"]), ({"i": 3}, [], ["7. correct answer"]),
    ({"i": 3, "response": {"status": 400, "error": {"message": "too *long*"}}}, [], ["7. HTTP 400 too \\*long\\*"]),
    ({"i": 3, "response": {"status": 500}}, [], ["7. HTTP 500 "]),
    ({"i": 3, "cold": {"equal": False, "first_diff": 2, "max_dlogprob": 0.5}}, [{"i": 3}],
     ["7. WRONG: token 2 differs from a cold run and log-probabilities differ by 0.5 from a cold run"]),
    ({"i": 3, "cold": {"equal": True, "max_dlogprob": 0.5}}, [{"i": 3}],
     ["7. WRONG: log-probabilities differ by 0.5 from a cold run"]),
    ({"i": 3, "cold": {"equal": False}}, [{"i": 3}], ["7. WRONG: token 0 differs from a cold run"]),
    ({"i": 3, "died": {"fatal": ["a.cpp:1: x", "y"]}}, [], ["7. the process ends: a.cpp:1: x / y"]),
    ({"i": 3, "died": {"fatal": []}}, [], ["7. the process ends: no message"]),
    ({"i": 3, "steps": [{"i": "3.0"}, {"i": "3.1", "cold": {"equal": False}}]}, [{"i": "3.1"}],
     ["7. correct answer", "8. WRONG: token 0 differs from a cold run"]),
])  # fmt: skip
def test_what_came_of_a_request_is_a_line(done, inexact, came):
    assert [*_came(7, done, inexact)] == came


def test_the_version_of_a_server_is_its_line(monkeypatch):
    for text, found in (("x\nversion: 11549 (abc)\ny", "version: 11549 (abc)"), ("x", "unknown version")):
        monkeypatch.setattr(module, "version_text", lambda binary, text=text: text)
        assert version(None) == found


def line(level, text):
    return f"0.00.000.001 {level} srv  update_slots: {text}\n"


def test_new_lines_of_a_log_with_decisions_warnings_and_errors_are_kept(tmp_path):
    file = tmp_path / "log"
    file.write_text(line("E", "before"))
    log = _Log(file)
    with file.open("a") as stream:
        stream.write(line("W", "a warning") + line("I", "nothing of interest") + "\tindented\n" + line("E", "an error"))
    assert [one.split(": ")[1] for one in log.more()] == ["a warning", "an error"] and log.more() == []


def test_the_log_of_wrong_requests_is_observed(monkeypatch, tmp_path):
    both = {"i": 2, "steps": [{"i": "2.0"}, {"i": "2.1"}]}
    steps = [(0, {"i": 0}), (1, {"i": 1, "cold": {"equal": False}}), (2, both)]
    logs = iter([["a"], ["b"], ["c"] * 70])
    recorder = SimpleNamespace(log_file=None, play=None, inexact=[{"i": 1}, {"i": "2.1"}])

    class Given:
        def __init__(self, start, rounding):
            assert (start.binary, start.gguf, rounding) == ("bin", "gguf", 0.5)

        def __enter__(self):
            return recorder

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(module, "Recorder", Given)
    monkeypatch.setattr(module, "_Log", lambda file: SimpleNamespace(more=lambda: next(logs)))
    monkeypatch.setattr(module, "Player", lambda scenario: SimpleNamespace(run=lambda play: iter(steps)))
    monkeypatch.setattr(module, "version", lambda binary: "version: 1")
    found = module.observed(SimpleNamespace(scenario=None, flags=(), tolerance=0.5), "bin", "gguf")
    assert found[0] == "version: 1"
    assert found[1] == ["0. correct answer", "1. WRONG: token 0 differs from a cold run", "2. correct answer",
                        "3. WRONG: "]  # fmt: skip
    assert found[2] == ["... request 1", "b", "... request 2", *["c"] * 57]


def test_a_request_at_which_the_process_ends_is_expected_to_end_it():
    expected = tomllib.loads(scenario_file(load(corpus_files()["llama-repair-shift-without-layers"]), PROFILE, "x"))
    found = expected["expect"][PROFILE]
    assert found["died"] == [1] and len(found["cache_n"]) == 2


def test_requests_whose_answer_is_undecided_are_expected_so(monkeypatch):
    def judged(scenario, profile, mode, with_ledger):
        made = run_judged(scenario, profile, mode, with_ledger=with_ledger)
        return SimpleNamespace(requests=made.requests, broken=[], unsettled=[1])

    monkeypatch.setattr(module, "run_judged", judged)
    assert table("A20/A.B5", parallel=1)["expect"][PROFILE]["undecided"] == [1]


def test_a_bundled_scenario_keeps_its_own_words():
    scenario = load(corpus_files()["llama-one-token-checkpoint"])
    found = tomllib.loads(scenario_file(scenario, PROFILE, "x"))
    assert (found["title"], found["why"], found["source"]) == (scenario.title, scenario.why, list(scenario.source))
    assert found["symptom"] == scenario.symptom and found["words"] == dict(scenario.words)


@pytest.mark.parametrize(("text", "matters"), [
    (line("W", "a warning").rstrip(), True), ("\t" + line("W", "a warning").rstrip(), False),
    (line("I", "text").rstrip(), False), (line("E", f"{module.OURS}3, no live slot").rstrip(), False),
    (f"0.00.000.001 {launch(0)}", True),
])  # fmt: skip
def test_lines_that_matter_are_decisions_warnings_and_errors(text, matters):
    assert module._matters(text) is matters


def test_a_log_that_is_empty_at_first_is_read_from_its_first_line(tmp_path):
    file = tmp_path / "log"
    file.write_text("")
    log = _Log(file)
    file.write_text("0.01.000.000 E srv  f: it failed\n")
    assert log.more() == ["0.01.000.000 E srv  f: it failed"] and log.more() == []
