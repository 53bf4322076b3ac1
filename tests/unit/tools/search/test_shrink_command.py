"""Tests of ``cachesim shrink``: the printed line is minimal, fails in the same way, and runs as printed."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.search import shrink_scenario

BASE = ("-p", "ik_llama@1889-base", "--model", "GA")
LINE = "S40.A20/S.A>3/B9@0/S.A.C5"
FILE = "llama-one-token-checkpoint-hybrid"


def call(capsys, *argv):
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


def shrunk(capsys, *argv):
    code, out, _ = call(capsys, "shrink", *argv, "--json")
    data = json.loads(out)
    assert data["schema"] == 1
    return code, data["shrunk"]


def test_the_command_that_is_printed_runs_and_is_broken(capsys):
    code, out, err = call(capsys, "shrink", LINE, *BASE, "--set", "parallel=2")
    command = shlex.split(out.splitlines()[-1])
    assert (code, err) == (exits.BROKEN, "")
    assert command == ["cachesim", "run", "A2/A", *BASE]
    assert "  shrunk from 4 steps (longest 65 tokens) to 2 (longest 2) in " in out
    code, out, _ = call(capsys, *command[1:], "--json")
    assert (code, json.loads(out)["runs"][0]["broken"]) == (exits.BROKEN, [1])


def test_json_has_everything(capsys):
    code, data = shrunk(capsys, LINE, *BASE)
    assert code == exits.BROKEN
    assert data.keys() == {
        "profile", "property", "kind", "numbers", "deciding", "role", "stored", "rule", "text", "step",
        "causes", "line", "model", "server", "requests", "longest",
        "before", "tries", "others", "command",
    }  # fmt: skip
    assert (data["line"], data["requests"], data["longest"], data["step"]) == ("A2/A", 2, 2, 1)
    assert data["before"] == {"requests": 4, "longest": 65}
    assert (data["property"], data["others"]) == ("warm-equals-cold", [])
    assert data["rule"] == "IK-PREFIX.STRICT: logits at position n depend on wrong K/V rows or states"
    assert 10 < data["tries"] < 200


@pytest.mark.long
def test_a_file_brings_its_profiles_its_model_and_its_options(capsys):
    code, data = shrunk(capsys, FILE)
    assert (code, data["line"], data["model"]) == (exits.BROKEN, "A5/B1>2/B.C1", "GGGA")
    assert [one["property"] for one in data["others"]] == ["stored-equals-cold"]
    code, other = shrunk(capsys, FILE, "--property", "stored-equals-cold")
    assert (code, other["property"], other["others"]) == (exits.BROKEN, "stored-equals-cold", [])
    assert other["requests"] < data["requests"]
    code, again = shrunk(capsys, FILE, "--model", "GA", "--set", "cache_ram=64")
    assert (code, again["model"], again["server"]) == (exits.BROKEN, "GA", {"parallel": 1})


@pytest.mark.long
def test_an_option_that_is_needed_is_part_of_the_command(capsys):
    line = "A250>9/B10"
    code, data = shrunk(capsys, line, "-p", "llama_cpp@b10587", "--model", "lfm2swa", "--set", "ctx_size=256",
                        "--set", "context_shift=true", "--set", "parallel=1")  # fmt: skip
    assert (code, data["property"]) == (exits.BROKEN, "survives")
    assert data["server"].keys() <= {"ctx_size", "context_shift"} and data["server"]["context_shift"] is True
    command = shlex.split(data["command"])[1:]
    assert "context_shift=true" in command and call(capsys, *command)[0] == exits.BROKEN


@pytest.mark.parametrize(("argv", "code", "told"), [
    (("S40/S", "-p", "ik_llama@main"), exits.HOLDS, "nothing fails: nothing to shrink"),
    ((FILE, "--property", "survives"), exits.HOLDS, "nothing fails: nothing to shrink"),
    (("ik-checkpoint-n-tokens-uninitialised", "-p", "ik_llama@main"), exits.UNDECIDED, "undecided under ik_llama@main"),
    (("ik-same-text-other-tokens",), exits.BAD_INPUT,
     "word 'one' is spelled out in pieces, which a line cannot express"),
    (("ik-empty-prompt",), exits.BAD_INPUT, "request 0 has no words, which a line cannot express"),
    (("A5/X",), exits.BAD_INPUT, "column 4, request 1: word 'X' has no length"),
    ((FILE, "-p", "ik_llama@main"), exits.BAD_INPUT, "rule sets of several engines: llama_cpp, ik_llama"),
    (("A5", "--property", "survive"), exits.BAD_INPUT, "did you mean 'survives'?"),
    (("S4/S", "--set", "ctx_sise=3"), exits.BAD_INPUT, "did you mean 'ctx_size'?"),
    ((FILE, "--model", "GX"), exits.BAD_INPUT, "GX"),
    (("nowhere.toml",), exits.BAD_INPUT, "nowhere.toml"),
])  # fmt: skip
def test_what_is_not_broken_is_no_error_and_what_cannot_be_read_is_one(capsys, argv, code, told):
    found, out, err = call(capsys, "shrink", *argv)
    assert (found, out) == (code, "")
    assert told in err and err.count("\n") == 1


def test_nothing_is_null_in_json(capsys):
    assert shrunk(capsys, "S40/S", "-p", "ik_llama@main") == (exits.HOLDS, None)


def test_no_more_lines_are_run_than_are_allowed(capsys):
    code, data = shrunk(capsys, LINE, *BASE, "--tries", "0")
    assert (code, data["tries"], data["line"]) == (exits.BROKEN, 0, LINE)
    _, data = shrunk(capsys, LINE, *BASE, "--tries", "25")
    assert 0 < data["tries"] <= 25 and data["longest"] < 65


def test_every_try_is_played_as_its_line_is_read_back():
    """Words of a file may be in any order; their tokens then differ from those of a line."""
    from cachesim.scenarios.corpus import named
    from cachesim.scenarios.load import load

    scenario = load(named(FILE))
    turned = replace(scenario, words=dict(reversed(scenario.words.items())))
    one = shrink_scenario.ScenarioShrinking(turned, "llama_cpp@b10587", ("warm-equals-cold",), "provenance", 5)
    again = one.case.scenario("llama_cpp@b10587")
    assert list(again.words) == list(dict.fromkeys(again.line.words)) and repr(again) == repr(turned)


def test_a_smaller_line_in_which_another_rule_decides_is_not_the_failure(capsys):
    """Without the second A the stored checkpoint is wrong, too, but where an entry of the prompt cache is made."""
    wanted = ("-p", "llama_cpp@b9473", "--model", "GA", "--property", "stored-equals-cold", "--tries", "60")
    _, data = shrunk(capsys, "A5/B1.A", *wanted)
    _, other = shrunk(capsys, "A5/B1", *wanted)
    assert data["deciding"] != other["deciding"] and (data["line"], data["requests"]) == ("A5/B1.A", 2)
