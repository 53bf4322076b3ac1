"""Command ``why``: several rule sets and engines, pictures, JSON and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture.picture_recorder import PictureRecorder
from cachesim.tools.run import why_command
from cachesim.tools.run.why_command import AskedRequest, _other_versions
from tests.unit.tools.command_arguments import arguments

HEAD, OLD = "llama_cpp@b10587", "llama_cpp@b9518"
LINE = ["why", "S20.A9/S.B9", "1", "--model", "A"]


def found(capsys, *words):
    code = main([*LINE, *words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_each_rule_set_has_an_answer_in_order(capsys):
    code, data, err = found(capsys, "-p", HEAD, "-p", "mlx_lm@0.32.2", "-p", OLD)
    assert [(one["profile"], one["request"], one["text"]) for one in data["why"]] == [
        (HEAD, 1, "S.B"), (OLD, 1, "S.B"), ("mlx_lm@0.32.2", 1, "S.B")]  # fmt: skip
    assert (code, data["schema"], err) == (exits.HOLDS, 2, "")


def test_the_answers_come_before_the_reasons(capsys):
    assert main([*LINE, "-p", HEAD, "-p", "mlx_lm@0.32.2"]) == exits.HOLDS
    out = capsys.readouterr().out
    answers = [out.index(f"\n{name}\n") for name in (HEAD, "mlx_lm@0.32.2")]
    assert out.startswith("try request 1 S.B\n") and answers[0] < answers[1] < out.index("LC-SLOT-SELECT")


def test_the_number_of_a_request_is_checked_for_every_scenario(capsys):
    assert main(["why", "A5", "1"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == "cachesim: unknown request 1 (0 to 0)\n"
    assert main(["why", "A5", "-1"]) == exits.BAD_INPUT


@pytest.mark.parametrize(("fails", "code"), [(BadInput("as a test"), exits.BAD_INPUT), (ValueError("x"), exits.CRASH)])
def test_a_rule_set_that_fails_is_named_and_the_others_are_explained(capsys, monkeypatch, fails, code):
    plain = why_command._reasons

    def reasons(answered, others):
        if answered.asked.profile == OLD:
            raise fails
        return plain(answered, others)

    monkeypatch.setattr(why_command, "_reasons", reasons)
    got, data, err = found(capsys, "-p", OLD, "-p", HEAD)
    assert (got, [one["profile"] for one in data["why"]]) == (code, [HEAD])
    assert f"try under {OLD}: " in err
    assert main([*LINE, "-p", OLD]) == code


def test_a_request_is_named_by_its_file_or_id():
    one = from_line("A5")
    assert str(AskedRequest(one, HEAD, "exact", 0)) == f"try under {HEAD}"
    of_file = replace(one, file="x.toml")
    assert str(AskedRequest(of_file, HEAD, "exact", 0)) == f"x.toml under {HEAD}"


def test_a_wrong_answer_is_exit_code_1(capsys):
    assert main(["why", "ik-2105-last-token-evaluated-twice-hybrid", "1", "-p", "ik_llama@1889-base"]) == exits.BROKEN


def test_versions_without_an_option_of_the_scenario_are_left_out():
    every = {*ENGINES["mlx_lm"].line, *ENGINES["mlx_lm"].beside}
    others = _other_versions(from_line("A20/A.B5", profiles=("mlx_lm@0.32.2",), model="A"), 1)
    assert set(others.outcomes) == every and others.outcomes["mlx_lm@0.32.2"].cache_n == 20
    one = from_line("A20/A.B5", profiles=(HEAD,), model="A", server={"swa_full": True})
    known = _other_versions(one, 1).outcomes
    assert HEAD in known and set(known) <= {*ENGINES["llama_cpp"].line, *ENGINES["llama_cpp"].beside}


def test_a_picture_shows_every_rule_set_and_the_request(capsys, tmp_path):
    file = tmp_path / "x.html"
    assert main([*LINE, "-p", HEAD, "-p", "mlx_lm@0.32.2", "-q", "--html", str(file)]) == exits.HOLDS
    assert f"wrote {file}" in capsys.readouterr().err
    page = file.read_text()
    assert page.count('role="listitem"') == 4


def test_the_next_command_names_the_case_as_typed(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(why_command, "after_why", lambda *args: seen.append(args) or [])
    main(["why", "llama-lesson-attention", "1"])
    main(LINE)
    (scenarios, reasons, words), (*_, none) = seen
    assert (list(scenarios), len(reasons), words, none) == (
        ["llama_cpp"], len(scenarios["llama_cpp"].profiles), ["llama-lesson-attention"], [])  # fmt: skip


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(why_command.add_arguments, ["x", "1"]) == {
        "case": "x", "number": 1, "profiles": [], "model": None, "settings": [], "pasted": "", "provenance": False,
        "exact": False, "limits": [], "json": False, "html": "", "svg": "", "trace": ""}  # fmt: skip


def test_pictures_show_the_request_and_the_failures_below_it(monkeypatch):
    drawn, scenario = [], from_line("A9/A.B5", model="A", profiles=(HEAD,))
    (asked,) = [AskedRequest(scenario, HEAD, "provenance", 1)]
    answered = why_command._answer(asked, PictureRecorder(HEAD, events=False))
    monkeypatch.setattr(why_command, "write_pictures", lambda args, runs, options: drawn.append((runs, options)))
    monkeypatch.setattr("cachesim.tools.run.run_table.failures_report", lambda found: f"failures of {found}")
    args = SimpleNamespace(number=1, html="x.html", svg="", trace="")
    why_command._write_pictures(args, [answered, answered._replace(observer=None)], ["data"])
    ((runs, options),) = drawn
    assert (len(runs), runs[0].scenario, runs[0].recorder) == (1, scenario, answered.observer)
    assert (options.focus, options.report) == (1, "failures of ['data']")
    why_command._write_pictures(SimpleNamespace(**{**vars(args), "html": ""}), [answered], ["data"])
    assert len(drawn) == 1
