"""Scenarios beside a real server: what is sent, repeated and left undecided, with the simulator in its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.media_items import image_items
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.older_server import OlderServer
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.real.comparison import (
    REPEATED,
    TIE,
    UNMARKED,
    compare_case,
    comparison_data,
    kind_of,
    model_file,
    record_case,
    unsendable,
    without_marks,
)
from cachesim.tools.live.llama_server.real.real_server import RealServer, own_server
from cachesim.tools.live.llama_server.server import LlamaServer
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher

__all__ = ["servers"]       # a fixture
NAMED = "A20>r2@0/B10@0/A.r.C3@0"
FLAGS = {"parallel": 1, "ctx_size": 512}


@pytest.fixture
def own(servers, tmp_path):
    """A server of b9713 with the rules of its build."""
    return own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518"))


def case(line=NAMED, model="A", **server):
    return from_line(line, model=model, profiles=("llama_cpp@b9518",), server={**FLAGS, **server})


def test_a_real_server_with_the_rules_of_its_build_is_equal(own, servers):
    found = compare_case(case(), own)
    assert (found.same, found.left_out, servers.hot) == (True, "", 1)
    assert [row.theirs.cache_n for row in found.found.rows] == [0, 0, 0]


def test_a_real_server_with_other_rules_differs_and_the_request_is_named(servers, tmp_path):
    """It loads the conversation of a named slot."""
    server = own_server(launcher(tmp_path, "b7375", "llama_cpp@b9765"))             # its log is not read
    found = compare_case(case(), server)
    assert [row.same for row in found.found.rows] == [True, True, False] and servers.hot == 1
    assert "cache_n" in found.found.rows[2].first


def test_a_decision_that_differs_is_named(servers, tmp_path):
    """A later build logs the choice of a named slot."""
    server = own_server(launcher(tmp_path, "b9713", "llama_cpp@b9765"))
    found = compare_case(case(), server).found
    assert found.rows[0].same is False and "slot_by_id there" in found.rows[0].first


def differing(servers, *numbers, cache_n=0):
    """Let the warm answers of these recorded servers differ from cold runs by a log-probability."""
    def spoil(number, is_cold, body, out):
        if is_cold or number not in numbers:
            return out
        top = [{"top_logprobs": [{"id": token, "logprob": -9.0}]} for token in out["tokens"]]
        counts = {**out["timings"], "cache_n": out["timings"]["cache_n"] + cache_n}
        return {**out, "completion_probabilities": top, "timings": counts}

    servers.spoil = spoil


@pytest.mark.parametrize(("numbers", "cache_n", "same", "started"), [
    ((1,), 0, None, REPEATED + 1), ((1, 3), 0, False, 3), ((1,), 1, False, 1)])  # fmt: skip
def test_only_a_difference_of_the_cold_run_alone_is_repeated(own, servers, numbers, cache_n, same, started):
    """Two tokens may be about equally likely; with other tokens they are not."""
    differing(servers, *numbers, cache_n=cache_n)
    found = compare_case(case("A9"), own)
    assert (found.same, servers.hot, found.found.rows[0].why) == (same, started, TIE if same is None else "")


def test_a_server_that_ends_at_any_prompt_with_a_model_is_left_out(own, servers):
    servers.ends = lambda prompt: True
    found = compare_case(case(), own)
    assert (found.found, found.same) == (None, None) and "b9713" in found.left_out
    assert servers.words[-1][-2:] == ["-lv", "1"] and servers.hot == 2


def test_a_build_that_cannot_evaluate_a_model_in_such_micro_batches_is_left_out(own, servers):
    servers.ends = lambda prompt: servers.words[-1][servers.words[-1].index("-ub") + 1] == "2"
    found = compare_case(case("A9", batch_size=64, ubatch_size=2), own)
    assert "any prompt" in found.left_out and servers.hot == 2


def test_a_build_that_cannot_evaluate_a_model_may_end_when_the_second_server_starts(own, servers):
    def ends(prompt):
        own.binary.write_text("#!/bin/sh\necho 'error: no such operation' >&2\nexit 2\n")
        return True

    servers.ends = ends
    assert "any prompt" in compare_case(case("A9"), own).left_out


def test_a_server_that_ends_at_a_conversation_only_differs(own, servers):
    servers.ends = lambda prompt: len(prompt) > 15
    found = compare_case(case(), own)
    assert (found.same, found.left_out) == (False, "") and found.found.rows[0].theirs.status == 0


@pytest.mark.parametrize(("scenario", "said"), [
    (case(model="SW8"), "SW8"), (case("S40>r4{drafts=1:1}"), "request 0")])
def test_a_case_that_cannot_be_run_is_not_sent(own, servers, scenario, said):
    found = compare_case(scenario, own)
    assert found.same is None and said.replace(" ", "") in found.left_out.replace(" ", "") and servers.words == []
    data = comparison_data(found)
    assert (data["requests"], data["left_out"]) == ([], found.left_out)


def test_a_server_that_does_not_start_is_left_out_with_its_reason(own):
    own.binary.write_text("#!/bin/sh\necho 'error: this release has no -np' >&2\nexit 2\n")
    assert compare_case(case(), own).left_out.endswith(": this release has no -np")


def test_older_builds_get_no_marks_and_a_note_says_so(own):
    found = compare_case(case("A9.|B3"), own)
    assert found.same is True and UNMARKED in found.found.notes
    assert "message_delimiters" not in found.found.recording["steps"][0]["request"]


@pytest.mark.parametrize("line", ["S9.|A5/S.|B5", "S9.A5/S.|B5"])
def test_marks_are_removed_from_what_is_sent_and_from_the_words(line):
    """A scenario with a wrong request is made again from its words."""
    marked = case(line)
    plain = without_marks(marked)
    assert [step.request.user_starts for step in plain.steps] == [(), ()]
    assert [step.text for step in plain.steps] == ["S.A", "S.B"]
    assert [step.request.prompt for step in plain.steps] == [step.request.prompt for step in marked.steps]
    assert without_marks(plain) is plain


@pytest.mark.parametrize(("line", "logged", "number"), [
    ("S40/S.A5", False, None), ("S40>r4{drafts=1:1}", True, 0), ("A9/B9@0{together+1}", False, 1),
    ("A9/B9@0{together+1}", True, None), ("A9>4{cancel_after=2}/B9", True, None), ("A9>4{cancel_after=2}/B9", False, 0),
])  # fmt: skip
def test_the_first_request_that_cannot_be_sent_is_named(line, logged, number):
    found = unsendable(case(line), logged)
    assert found == "" if number is None else found.startswith(f"request {number}")


def test_other_engines_drafts_of_older_builds_and_images_cannot_be_sent():
    assert unsendable(from_line("A9", model="A", profiles=("vllm@0.33.0",)), True)
    drafts = case("A9", spec_type="ngram-simple")
    assert unsendable(drafts, False) and not unsendable(drafts, True)
    plain = case("A9/A.B5")
    second = replace(plain.steps[1], request=replace(plain.steps[1].request, prompt=(5, *image_items("I", 2, 1), 6)))
    assert unsendable(replace(plain, steps=(plain.steps[0], second)), True).startswith("request 1")


@pytest.mark.parametrize(("build", "kind"), [
    ("b7375", QuietServer), ("b7376", OlderServer), ("b10067", OlderServer), ("b10068", LlamaServer)])  # fmt: skip
def test_a_log_is_read_as_its_build_writes_it(build, kind):
    server = RealServer(build, Path("x"), "", "")
    assert kind_of(server) is kind and server.is_logged is kind.is_logged


def test_a_model_is_written_once_and_completely_and_a_draft_model_beside_it(own, servers):
    file = model_file("A")
    changed = file.stat().st_mtime_ns
    assert model_file("A") == file and file.stat().st_mtime_ns == changed
    other = own._replace(build="b7375")                                    # drafts need a log, which it has not
    assert compare_case(case("A9", spec_type="draft-simple", model_draft="S"), other).left_out
    assert [one.name for one in file.parent.iterdir()] == ["tiny-A.gguf"]


def test_a_recording_has_the_name_of_the_scenario_and_the_rule_set_of_the_build(own, servers):
    scenario = replace(case("A9>r2/A.r.B5{drafts=1:1}"), id="two")
    trace, notes = record_case(scenario, own, None)
    assert (trace["name"], trace["profile"], trace["commit"], len(trace["steps"])) == (
        "two", own.profile.partition("@")[2], "b9713", 2)  # fmt: skip
    assert len(notes) == 1 and servers.words[0][1].endswith("tiny-A.gguf")


def test_a_comparison_as_data(own):
    data = comparison_data(compare_case(replace(case("A9"), id="one", file="one.toml"), own))
    assert (data["scenario"], data["build"], data["same"], data["log_read"]) == ("one", "b9713", True, True)
    assert [row["theirs"]["prompt_n"] for row in data["requests"]] == [9]
    assert comparison_data(compare_case(case("A9"), own))["scenario"] == "A9"


# Commands


WORDS = ["--model", "A", "-np", "1", "-c", "512"]


def test_run_prints_the_real_server_beside_the_run_and_fails_if_it_differs(servers, tmp_path, capsys):
    equal = launcher(tmp_path, "b9713", "llama_cpp@b9518", "equal")
    other = launcher(tmp_path, "b9713", "llama_cpp@b9765", "other")
    assert main(["run", NAMED, *WORDS, "--real", str(equal)]) == exits.HOLDS
    assert "b9713" in capsys.readouterr().out
    assert main(["run", NAMED, *WORDS, "--real", f"{equal},{other}", "--json"]) == exits.BROKEN
    data = json.loads(capsys.readouterr().out)
    assert [one["same"] for one in data["real"]] == [True, False] and len(data["runs"]) == 1


def test_diff_says_that_two_real_builds_differ(servers, tmp_path, capsys):
    older = launcher(tmp_path, "b9713", "llama_cpp@b9518", "older")
    newer = launcher(tmp_path, "b9873", "llama_cpp@b9765", "newer")
    words = ["diff", NAMED, "-p", "b9518", "-p", "b9765", *WORDS]
    assert main([*words, "--real", f"{older},{newer}"]) == exits.HOLDS
    assert "the real b9713 and b9873 differ in request 2" in capsys.readouterr().out


def test_a_recording_of_a_real_server_replays(servers, tmp_path):
    file, out = launcher(tmp_path, "b9713", "llama_cpp@b9518"), tmp_path / "one.json"
    words = ["record", "A20>r2@0/B10@0", "--real", str(file), "--layers", "A", "-np", "1"]
    assert main([*words, "--out", str(out)]) == exits.HOLDS == main(["replay", str(out)])
    assert main([*words, "--url", "http://127.0.0.1:1"]) == exits.BAD_INPUT


def test_without_the_wheel_a_command_refuses_before_it_runs(servers, capsys):
    assert main(["run", "A9/A", "--real", "b11549"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and "b11549" in err and "--install" in err
