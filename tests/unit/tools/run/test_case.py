"""Tests of the argument FILE|ID|LINE of all commands, and of provenance mode for long prompts."""

from __future__ import annotations

import json
import sys

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.run.arguments import LONG

ID = "llama-lesson-hybrid"
PAIR = ("-p", "llama_cpp@b10587", "-p", "llama_cpp@b11549")
LINE = "S40.A60/S.B9"
COMMANDS = {
    "run": lambda case: ["run", case, "-p", "llama_cpp@b10587"],
    "why": lambda case: ["why", case, "1", "-p", "llama_cpp@b10587"],
    "diff": lambda case: ["diff", case, *PAIR],
    "bisect": lambda case: ["bisect", case],
}


def called(capsys, *words):
    """Exit code, JSON and stderr."""
    code = main([*words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def told(data):
    """Model and mode of the first run in the output of any of the commands."""
    one = (data.get("runs") or data.get("why") or [data.get("a") or data])[0]
    return one.get("model"), one.get("mode")


@pytest.mark.part(4)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", [ID, LINE])
def test_a_file_by_its_id_or_requests_in_one_line_with_another_model_and_other_options(capsys, command, case):
    words = COMMANDS[command](case)
    code, plain, err = called(capsys, *words)
    assert code in (exits.HOLDS, exits.BROKEN) and err == ""
    code, other, _ = called(capsys, *words, "--model", "A", "-np", "2", "--set", "ctx_size=512")
    assert code in (exits.HOLDS, exits.BROKEN) and other != plain


def test_the_model_of_a_line_is_a_hybrid_and_that_of_a_file_its_own(capsys):
    assert told(called(capsys, "run", LINE)[1]) == ("GGGA", "exact")
    assert told(called(capsys, "run", "llama-lesson-attention", "-p", "llama_cpp@b10587")[1])[0] == "AAAA"
    assert told(called(capsys, "run", "llama-lesson-attention", "-p", "llama_cpp@b10587", "--model", "A")[1])[0] == "A"


@pytest.mark.part(4)
@pytest.mark.parametrize("command", ["run", "why", "diff"])
@pytest.mark.parametrize(("length", "words", "mode"), [
    (LONG - 11, [], "exact"), (LONG, [], "provenance"), (LONG, ["--exact"], "exact"),
    (5, ["--provenance"], "provenance"),
])  # fmt: skip
def test_long_prompts_go_without_arithmetic_and_that_is_told(capsys, command, length, words, mode):
    _, data, err = called(capsys, *COMMANDS[command](f"S{length}/B9"), "--model", "A", *words)
    if command == "run":
        assert told(data)[1] == mode
    chosen = mode == "provenance" and not words
    assert ("--exact" in err) is chosen
    assert not chosen or f"{length + 11:,} tokens" in err


def test_exact_and_provenance_exclude_each_other(capsys):
    assert main(["run", LINE, "--exact", "--provenance"]) == exits.BAD_INPUT


def test_what_a_folder_is_not_given(capsys):
    assert main(["diff", "scenarios", *PAIR, "--model", "A"]) == exits.BAD_INPUT
    assert "not with a folder" in capsys.readouterr().err


def test_a_file_has_its_engine(capsys):
    assert main(["bisect", ID, "-p", "llama_cpp@b10587"]) == exits.BAD_INPUT
    assert "a file names its engine" in capsys.readouterr().err


def test_a_request_that_is_not_there(capsys):
    assert main(["why", LINE, "2"]) == exits.BAD_INPUT
    assert "unknown request 2 (0 to 1)" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(("profile", "command"), [
    ("llama_cpp@b11549", "why"), ("mlx_lm@0.32.2", "why"),
])  # fmt: skip
def test_100000_tokens_are_played_under_every_version_in_few_calls(capsys, profile, command):
    """Counted, for a clock also tells what else the machine does: 25 calls of functions for each token of the prompts,
    all rule sets of the engine together. A node of the trie for each token needed 60."""
    calls = 0

    def told(frame, event, what):
        nonlocal calls
        calls += event in ("call", "c_call")

    line, rest = "S49000.A900>a5/S.A[:200].B50", [*["1"] * (command == "why"), "-p", profile, "--json"]
    main([command, "S40.A9>a5/S.A[:2].B5", *rest])          # imports what it needs
    before = sys.getprofile()
    sys.setprofile(told)
    try:
        code = main([command, line, *rest])
    finally:
        sys.setprofile(before)
    assert code == exits.HOLDS
    assert calls < 25 * 99_150
    capsys.readouterr()


REFUSED = """id = "refused"
title = "t"
why = "w"
source = ["cachesim"]
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b10587"]
[server]
ctx_size = 256
[words]
A = 300
[[request]]
prompt = "A"
"""
EXPECTED = '[expect]\n"llama_cpp@b10587" = { status = [400] }\n"llama_cpp@b11549" = { status = [400] }\n'


@pytest.mark.parametrize(("command", "expect", "code"), [
    ("run", "", exits.UNDECIDED), ("diff of a folder", "", exits.UNDECIDED), ("run", EXPECTED, exits.HOLDS),
    ("why", EXPECTED, exits.HOLDS), ("diff", EXPECTED, exits.HOLDS), ("diff of a folder", EXPECTED, exits.HOLDS),
])  # fmt: skip
def test_a_refusal_that_the_file_expects_is_not_undecided(capsys, tmp_path, command, expect, code):
    file = tmp_path / "refused.toml"
    file.write_text(REFUSED + expect)
    case = str(tmp_path if command == "diff of a folder" else file)
    number = ["0"] * (command == "why")
    assert main([command.partition(" ")[0], case, *number, *PAIR, "-q"]) == code


def test_a_refusal_is_completed_as_a_number(capsys, tmp_path):
    file = tmp_path / "refused.toml"
    file.write_text(REFUSED)
    main(["run", str(file), "--complete", "-q"])
    assert "status = [400]" in file.read_text()
