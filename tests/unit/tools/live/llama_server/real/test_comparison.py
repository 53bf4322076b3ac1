"""Tests of scenarios beside a real server, with the simulator behind HTTP in its place."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.real import comparison
from cachesim.tools.live.llama_server.real.comparison import (
    compare_case,
    comparison_data,
    model_file,
    without_marks,
)
from cachesim.tools.live.llama_server.real.real_server import own_server
from cachesim.tools.live.llama_server.verify.case import Verification
from cachesim.tools.live.llama_server.verify.model_of import ComparedRequest, RequestResult
from cachesim.tools.live.real_report import real_report
from tests.unit.tools.live.real_llama import launcher

pytestmark = pytest.mark.long

NAMED = "A20>r2@0/B10@0/A.r.C3@0"
FLAGS = {"parallel": 1, "ctx_size": 512}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def case(line=NAMED, model="A", **server):
    return from_line(line, model=model, profiles=("llama_cpp@b9518",), server={**FLAGS, **server})


@pytest.mark.parametrize(("server", "models"), [({"model_draft": "tiny-A"}, ["tiny-A"]), ({"model_draft": ""}, []),
                                                ({"model_draft": 3}, []), ({}, [])])  # fmt: skip
def test_draft_models_are_those_that_a_server_names(server, models):
    assert [*comparison._draft_models(SimpleNamespace(server=server))] == models


def test_a_real_server_with_the_rules_of_its_build_is_equal(tmp_path):
    server = own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518"))
    found = compare_case(case(), server)
    assert found.same is True and not found.left_out
    assert [row.theirs.cache_n for row in found.found.rows] == [0, 0, 0]
    text = as_text(real_report(comparison_data(found)))
    assert "real b9713" in text and "answers are equal on the real b9713" in text


def test_a_real_server_with_other_rules_differs_and_the_request_is_named(tmp_path):
    server = own_server(launcher(tmp_path, "b9713", "llama_cpp@b9765"))       # loads a named slot's conversation
    found = compare_case(case(), server)
    assert found.same is False
    assert [row.same for row in found.found.rows] == [True, True, False]
    text = as_text(real_report(comparison_data(found)))
    assert "DIFFERS on the real b9713, first in request 2" in text
    assert "request 2: first difference: " in text


def test_marks_are_removed_from_what_is_sent_and_from_the_words():
    """A scenario with a wrong request is made again from its words."""
    marked = case("S9.|A5/S.|B5")
    plain = without_marks(marked)
    assert [step.request.user_starts for step in plain.steps] == [(), ()]
    assert [step.text for step in plain.steps] == ["S.A", "S.B"]
    assert [step.request.prompt for step in plain.steps] == [step.request.prompt for step in marked.steps]
    assert without_marks(plain) is plain


def test_layers_without_an_architecture_are_left_out(tmp_path):
    server = own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518"))
    found = compare_case(case(model="SW8"), server)
    assert found.same is None and "llama.cpp has no architecture with the layers" in found.left_out
    assert "not run on b9713: " in as_text(real_report(comparison_data(found)))


def test_a_server_that_does_not_start_is_left_out_with_its_reason(tmp_path):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    server = own_server(file)
    file.write_text("#!/bin/sh\necho 'error: this release has no -np' >&2\nexit 2\n")
    found = compare_case(case(), server)
    assert found.left_out.endswith("the server ended when it started: this release has no -np")


@pytest.mark.parametrize(("ending", "left_out"), [
    ({"A20>r2@0/B10@0/A.r.C3@0", "A9"}, "the real b9713 ends at any prompt with this model"),
    ({"A20>r2@0/B10@0/A.r.C3@0"}, ""),
])  # fmt: skip
def test_a_build_that_cannot_evaluate_the_model_is_left_out(tmp_path, monkeypatch, ending, left_out):
    """A process that ends at the conversation only is a difference."""
    def compared(scenario, server, gguf, seed):
        status = 0 if repr(scenario) in ending else 200
        row = ComparedRequest(0, "A", RequestResult(0, 20, 200, True), RequestResult(None, None, status, None), False)
        return comparison.RealComparison(scenario, server, Verification([row], "A", server.profile, []))

    monkeypatch.setattr(comparison, "_compared", compared)
    found = compare_case(case(), own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518")))
    assert (found.left_out, found.same) == (left_out, None if left_out else False)


def test_a_model_is_written_once_and_completely():
    file = model_file("A")
    changed = file.stat().st_mtime_ns
    assert model_file("A") == file and file.stat().st_mtime_ns == changed
    assert [other.name for other in file.parent.iterdir()] == ["tiny-A.gguf"]


def test_run_prints_the_real_server_beside_the_run_and_fails_if_it_differs(tmp_path, capsys):
    equal = launcher(tmp_path, "b9713", "llama_cpp@b9518", "equal")
    other = launcher(tmp_path, "b9713", "llama_cpp@b9765", "other")
    words = ["run", NAMED, "--model", "A", "-np", "1", "-c", "512"]
    assert main([*words, "--real", str(equal)]) == exits.HOLDS
    assert "answers are equal on the real b9713" in capsys.readouterr().out
    assert main([*words, "--real", f"{equal},{other}", "--json"]) == exits.BROKEN
    data = json.loads(capsys.readouterr().out)
    assert [one["same"] for one in data["real"]] == [True, False]
    assert len(data["runs"]) == 1


def test_diff_says_that_two_real_builds_differ(tmp_path, capsys):
    older = launcher(tmp_path, "b9713", "llama_cpp@b9518", "older")
    newer = launcher(tmp_path, "b9873", "llama_cpp@b9765", "newer")
    words = ["diff", NAMED, "-p", "b9518", "-p", "b9765", "--model", "A", "-np", "1", "-c", "512"]
    assert main([*words, "--real", f"{older},{newer}"]) == exits.HOLDS
    assert "the real b9713 and b9873 differ in request 2" in capsys.readouterr().out


def test_verify_and_record_take_a_real_server(tmp_path, capsys):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    line = "A20>r2@0/B10@0"
    assert main(["verify", line, "--layers", "A", "--real", str(file), "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["real"][0]["same"] is True
    out = tmp_path / "one.json"
    assert main(["record", line, "--real", str(file), "--layers", "A", "--out", str(out)]) == exits.HOLDS
    assert json.loads(out.read_text())["log"] is False
    assert main(["replay", str(out)]) == exits.HOLDS
    assert main(["verify", line, "--real", str(file), "--url", "http://127.0.0.1:1"]) == exits.BAD_INPUT
    assert main(["record", line, "--real", str(file), "--url", "http://127.0.0.1:1"]) == exits.BAD_INPUT


def test_without_the_wheel_a_command_refuses_before_it_runs(capsys):
    assert main(["run", "A9/A", "--real", "b11549"]) == exits.BAD_INPUT
    out = capsys.readouterr()
    assert out.out == "" and "not installed: b11549 (--install, or cachesim real install BUILD)" in out.err
