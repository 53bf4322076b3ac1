"""Tests of ``cachesim export``: all forms, output files, and refusals."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from cachesim.cli.main import main
from cachesim.tools.live.llama_server.export import FORMS
from tests.unit.tools.live.stand_in import stand_in

LINE = ["S40.A5/S.B7/S.A.C2", "--model", "GA"]
"""Its last request evaluates 45 tokens again, which a proposal reuses."""
SHORT = ["S5.A5/S.B7/S.A.C2", "--model", "A"]
"""Its last request evaluates 5 tokens again, which a proposal reuses."""


@pytest.mark.part(3)
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form, capsys, tmp_path):
    assert main(["export", *SHORT, "--to", form]) == 0
    text = capsys.readouterr().out
    assert "tiny-A.gguf" in text or form == "toml"
    assert main(["export", *SHORT, "--to", form, "-o", str(tmp_path / "case")]) == 0
    assert capsys.readouterr().out == ""
    assert form == "toml" or (tmp_path / "case").read_text().rstrip("\n") == text.rstrip("\n")


def test_a_scenario_and_its_options(capsys):
    assert main(["export", "llama-one-token-checkpoint", "--to", "curl", "--with-server", "--set",
        "ubatch_size=8"]) == 0
    text = capsys.readouterr().out
    assert "'-ub', '8'" in text and "'tiny-GGGA.gguf': TinyModel(" in text


def test_the_exported_file_is_the_scenario_of_its_name(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    assert main(["export", *SHORT, "--to", "toml", "-o", str(file)]) == 0
    assert main(["run", str(file), "--as-expected"]) == 0


def test_json(capsys):
    assert main(["export", *SHORT, "--to", "pytest", "--json"]) == 0
    assert "def test_try():" in json.loads(capsys.readouterr().out)["text"]


@pytest.mark.parametrize("words, said", [
    (["S5", "--to", "postcard"], "invalid choice"), (["S5"], "required: --to"),
    (["S5{task=embedding}", "--to", "curl"], "only completions can be run"),
    ([f"{SHORT[0]}/{{restart}}/S", *SHORT[1:], "--to", "pytest"], "restarts the server"),
    (["S5", "--to", "issue", "--server", "x"], "expected --server and --gguf together"),
    (["mlx-1169-join-partial-prompt-hybrid", "--to", "curl"], "mlx_lm cannot be run"),
])  # fmt: skip
def test_what_cannot_be_exported(words, said, capsys):
    assert main(["export", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_fault_is_noted_before_versions_are_compared(capsys, monkeypatch):
    """The search for the first bad version takes the longest and may be interrupted."""
    words = ["A5/B10/B[:3].C3", "--model", "GA", "--set", "parallel=1", "--set", "ctx_size=256"]
    write = sys.stderr.write

    def interrupt(text):
        """Interrupt the command when it is said to search, which takes seconds."""
        written = write(text)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return written

    monkeypatch.setattr(sys.stderr, "write", interrupt)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        assert main(["export", *words, "--to", "issue", "-p", "llama_cpp@b11549"]) == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    out, err = capsys.readouterr()
    assert out == "" and "request 2 under llama_cpp@b11549" in err.splitlines()[0]


@pytest.mark.parametrize(("wheel", "needs"), [([], "llama-server"), (["--wheel", "b9713"], "xllamacpp==2026.6.9713")])
def test_a_report_says_what_its_script_needs(capsys, wheel, needs):
    assert main(["export", "llama-repair-shift-without-layers", "--to", "issue", *wheel]) == 0
    assert f" {needs} and python3" in capsys.readouterr().out


def test_a_request_that_had_to_be_changed_is_noted(capsys, tmp_path):
    """The drafts of a scenario are the simulator's."""
    plain, *model = SHORT
    line, note = f"{plain}>r4{{drafts=1:1}}", "drafts come from the server's own drafter"
    assert main(["export", line, *model, "--to", "curl", "--json"]) == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert (data["to"], data["file"], data["notes"], err) == ("curl", "", [note], f"cachesim: try: {note}\n")
    file = tmp_path / "case.sh"
    assert main(["export", line, *model, "--to", "curl", "--json", "-o", str(file)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["file"] == str(file) and file.read_text() == data["text"]
    assert main(["export", line, *model, "--to", "toml"]) == 0
    assert capsys.readouterr().err == ""


def test_the_numbers_are_those_of_one_rule_set(capsys):
    for profile, number in (("llama_cpp@b9518", 0), ("llama_cpp@b9765", 10)):
        assert main(["export", "A20>r2@0/B10@0/A.r.C3@0", "--to", "toml", "-p", profile, "--model", "A"]) == 0
        out = capsys.readouterr().out
        assert f'[expect."{profile}"]' in out and f"cache_n = [0, 0, {0 if number == 0 else 21}]" in out
    assert main(["export", "A5", "--to", "toml", "-p", "llama_cpp@b9518", "-p", "llama_cpp@b9765"]) == 2
    assert "one profile" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "words"), [
    ("curl", []), ("pytest", []), ("toml", []), ("server-test", []), ("curl", ["--with-server"])])  # fmt: skip
def test_a_wheel_goes_with_scripts_and_reports(capsys, form, words):
    if form in FORMS:
        assert main(["export", "A5", "--to", form, "--wheel", "b11549", *words]) == 2
        assert "--wheel goes with --to script and --to issue" in capsys.readouterr().err


def test_a_report_has_the_results_of_the_given_server(capsys, tmp_path):
    """The stand-in reuses nothing, as a server with the loss does, and has no log line of its time."""
    binary = stand_in(tmp_path, "version: 7 (abc)", "well")
    (gguf := tmp_path / "tiny-GA.gguf").touch()
    words = ["export", *LINE, "--to", "issue", "--server", str(binary)]
    assert main(words) == 2
    assert "--gguf" in capsys.readouterr().err
    assert main([*words, "--gguf", str(gguf)]) == 0
    out = capsys.readouterr().out
    assert "version: 7" in out and "2. cache_n 0, evaluated 47: THE LOSS SHOWS: 0 of 45 tokens reused" in out
    assert "0. cache_n 0, evaluated 45\n" in out and "new prompt" in out and "correct answer" not in out


@pytest.mark.parametrize(("form", "what", "reason"), [
    *((form, "A5/B5", "no wrong answer and no lost reuse under llama_cpp@b11549") for form in FORMS if form != "toml"),
    ("script", "A9@0/A@1 --model A --set parallel=2",
     "no rule set of llama_cpp reuses the 8 tokens that request 1 evaluates again"),
    ("issue", "llama-24143-entry-removed-dense -p llama_cpp@pr24143-on-b10587",
     "nothing to show (-p llama_cpp@b11549: request 3: 40 of 100 tokens reused"),
])  # fmt: skip
def test_a_case_without_a_fault_is_refused_with_the_reason(form, what, reason, capsys):
    assert main(["export", *what.split(), "--to", form]) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and err.count("\n") == 1
