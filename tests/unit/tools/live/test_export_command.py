"""Tests of ``cachesim export``: all forms, output files, and refusals."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.cli.main import main
from cachesim.tools.live import export_command
from cachesim.tools.live.llama_server.export import FORMS, issue, scenario_file

LINE = "A5/B10/B[:3].C3"
WRONG = "llama-window-checkpoint-erosion"


@pytest.mark.part(3)
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form, capsys, tmp_path):
    assert main(["export", LINE, "--to", form]) == 0
    text = capsys.readouterr().out
    assert "tiny-GGGA.gguf" in text or form == "toml"
    assert main(["export", LINE, "--to", form, "-o", str(tmp_path / "case")]) == 0
    assert capsys.readouterr().out == ""
    assert form == "toml" or (tmp_path / "case").read_text().rstrip("\n") == text.rstrip("\n")


def test_a_scenario_and_its_options(capsys):
    assert main(["export", "llama-one-token-checkpoint", "--to", "curl", "--with-server", "--set",
        "ubatch_size=8"]) == 0
    text = capsys.readouterr().out
    assert "'-ub', '8'" in text and "'tiny-GGGA.gguf': TinyModel(" in text


def test_the_exported_file_is_the_scenario_of_its_name(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    assert main(["export", LINE, "--to", "toml", "-o", str(file)]) == 0
    assert main(["run", str(file), "--as-expected"]) == 0


def test_json(capsys):
    assert main(["export", LINE, "--to", "pytest", "--json"]) == 0
    assert "def test_try():" in json.loads(capsys.readouterr().out)["text"]


@pytest.mark.parametrize("words, said", [
    (["S5", "--to", "postcard"], "invalid choice"), (["S5"], "required: --to"),
    (["S5{task=embedding}", "--to", "curl"], "only completions can be run"),
    (["S5/{restart}/S", "--to", "pytest"], "restarts the server"),
    (["S5", "--to", "issue", "--server", "x"], "expected --server and --gguf together"),
    (["mlx-1169-join-partial-prompt-hybrid", "--to", "curl"], "mlx_lm cannot be run"),
])  # fmt: skip
def test_what_cannot_be_exported(words, said, capsys):
    assert main(["export", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_fault_is_noted_before_versions_are_compared(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(issue, "bisect", interrupt)
    assert main(["export", WRONG, "--to", "issue", "-p", "llama_cpp@b11549"]) == 130
    said = capsys.readouterr()
    fault, last = said.err.splitlines()
    assert said.out == "" and fault.startswith(f"cachesim: {WRONG}: request 2 under llama_cpp@b11549: wrong answer: ")
    assert last == "cachesim: interrupted: the search for the first bad version was not finished"
    assert main(["export", WRONG, "--to", "issue", "--json"]) == 130
    assert capsys.readouterr().err == f"{last}\n"


def test_without_a_wrong_answer_no_versions_are_compared(capsys, monkeypatch):
    monkeypatch.setattr(issue, "bisect", None)
    assert main(["export", "A5/B10", "--to", "issue"]) == 0
    said = capsys.readouterr()
    assert "The answer is correct under this rule set." in said.out and said.err == ""


@pytest.mark.parametrize(("wheel", "needs"), [(None, "llama-server"), (("llama-x==1.0", "b9"), "llama-x==1.0")])
def test_a_report_says_what_its_script_needs(capsys, monkeypatch, wheel, needs):
    monkeypatch.setattr(export_command, "_wheel", lambda build: wheel)
    monkeypatch.setattr(issue, "bisect", None)
    assert main(["export", "A5/B10", "--to", "issue"]) == 0
    assert f"Script: needs only {needs} and python3" in capsys.readouterr().out


def test_a_request_that_had_to_be_changed_is_noted(capsys, tmp_path):
    """The drafts of a scenario are the simulator's."""
    line, note = "S40>r4{drafts=1:1}", "drafts come from the server's own drafter"
    assert main(["export", line, "--to", "curl", "--json"]) == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert (data["to"], data["file"], data["notes"], err) == ("curl", "", [note], f"cachesim: try: {note}\n")
    file = tmp_path / "case.sh"
    assert main(["export", line, "--to", "curl", "--json", "-o", str(file)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["file"] == str(file) and file.read_text() == data["text"]
    assert main(["export", line, "--to", "toml"]) == 0
    assert capsys.readouterr().err == ""


def test_the_numbers_are_those_of_one_rule_set(capsys):
    for profile, number in (("llama_cpp@b9518", 0), ("llama_cpp@b9765", 10)):
        assert main(["export", "A20>r2@0/B10@0/A.r.C3@0", "--to", "toml", "-p", profile, "--model", "A"]) == 0
        out = capsys.readouterr().out
        assert f'[expect."{profile}"]' in out and f"cache_n = [0, 0, {0 if number == 0 else 21}]" in out
    assert main(["export", "A5", "--to", "toml", "-p", "llama_cpp@b9518", "-p", "llama_cpp@b9765"]) == 2
    assert "expected at most one profile for the expected numbers" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "words"), [
    ("curl", []), ("pytest", []), ("toml", []), ("server-test", []), ("curl", ["--with-server"])])  # fmt: skip
def test_a_wheel_goes_with_scripts_and_reports(capsys, form, words):
    if form in FORMS:
        assert main(["export", "A5", "--to", form, "--wheel", "b11549", *words]) == 2
        assert "--wheel goes with --to script and --to issue" in capsys.readouterr().err


def test_the_wheel_of_a_build_is_named_by_its_package(capsys):
    assert export_command._wheel("") is None
    assert export_command._wheel("b9713") == ("xllamacpp==2026.6.9713", "b9713")
    parser = ArgumentParser()
    export_command.add_arguments(parser)
    plain = parser.parse_args(["A5", "--to", "issue"])
    assert (plain.wheel, plain.out, plain.server, plain.gguf, plain.with_server) == ("", None, None, None, False)


def test_a_report_has_the_results_of_the_given_server(capsys, monkeypatch):
    seen = []

    def observe(script, binary, gguf):
        seen.append((script.scenario.id, binary, gguf))
        return issue.ObservedRun("version: 7", ["0. seen"], ["a line of the log"])

    monkeypatch.setattr(scenario_file, "observed", observe)
    monkeypatch.setattr(issue, "bisect", None)
    assert main(["export", "A5/B10", "--to", "issue", "--server", "bin", "--gguf", "x.gguf"]) == 0
    out = capsys.readouterr().out
    assert seen == [("try", Path("bin"), Path("x.gguf"))]
    assert "version: 7" in out and "0. seen" in out and "a line of the log" in out
    assert main(["export", "A5/B10", "--to", "issue", "--gguf", "x.gguf"]) == 2
    assert "expected --server and --gguf together" in capsys.readouterr().err


def test_the_usage_names_the_value_of_each_option():
    parser = ArgumentParser(prog="export")
    export_command.add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("--to {", "[--with-server]", "[--out FILE]", "[--wheel BUILD]", "[--server BIN]", "[--gguf GGUF]",
                 "[--json]", "--limit"):  # fmt: skip
        assert text in usage
    assert usage.endswith(" FILE|LINE")


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    export_command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []
