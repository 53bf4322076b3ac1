"""Tests of hints for misspelled words: the word that was meant, in a line."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines import registry
from tests.shared import forget_engines
from tests.unit.tools.search.test_fuzz_command import call


@pytest.mark.parametrize(("argv", "hint"), [
    (("run", "A2", "-p", "lateest"), "did you mean 'latest'?"),
    (("memory", "qwen3", "-p", "latset"), "did you mean 'latest'?"),
    (("run", "A2", "-p", "llama_cpp@lateest"), "did you mean 'llama_cpp@latest'?"),
    (("run", "A2", "-p", "lama_cpp"), "did you mean 'llama_cpp'?"),
    (("explain", "pos_mni"), "did you mean 'pos_min'?"), (("explain", "POS-MNI"), "did you mean 'pos_min'?"),
    (("conform",), "a function of the Python package: help(cachesim.conform)"),
    (("judge", "A2"), "a function of the Python package: help(cachesim.judge)"), (("rnu",), "did you mean 'run'?"),
    (("memory", "qwen3", "--memroy", "8"), "did you mean '--memory'?"),
])  # fmt: skip
def test_the_word_that_was_meant_is_named(capsys, argv, hint):
    code, out, err = call(capsys, *argv)
    assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1) and f"({hint})" in err


FIELD = "ckpt_pick=pick"
RULES = """
from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
from cachesim.engines.rule import Decision, Role, rule

@rule("MISSPELLED-PICK", Role.PICK, "a test")
def pick(ckpts, ask, thold) -> Decision:
    '''Picks nothing.'''
    return Decision(None, {"n_past": ask.n_past})

MINE = replace(PROFILES[NEWEST], name="llama_cpp@mine", ckpt_pick=pick)
"""


@pytest.mark.parametrize(("right", "wrong", "hint"), [
    ("ask.n_past", "ask.n_pst", "(did you mean 'n_past'?)"), ("ckpt_pick=pick", "ckpt_pik=pick", "'ckpt_pick'?)"),
    ("ckpt_pick=pick", "ckpt_pick=pik", "(did you mean 'pick'?)"), ("[NEWEST]", "[NEWST]", "(did you mean 'NEWEST'?)"),
    ("return Decision", "return Decison", "(did you mean 'Decision'?)"), ("ask.n_past", "ask.zzzzzz", "'zzzzzz'\n"),
    ("ckpt_pick=pick", "zzzzzz=pick", "'zzzzzz'\n"), ("ckpt_pick=pick", "ckpt_pick=zzzzzz", "not defined\n"),
    ("ask.n_past", "int(k=1)", "'k' is an invalid keyword argument for int()\n"),
])  # fmt: skip
def test_names_in_a_rule_file(capsys, monkeypatch, tmp_path, right, wrong, hint):
    from cachesim.engines.rule import RULES as known

    forget_engines(monkeypatch)
    assert all(one.profiles for one in registry.BUILTIN.values())
    file = tmp_path / "my_rules.py"
    file.write_text(RULES.replace(right, wrong))
    code, out, err = call(capsys, "run", "S40.A60>r4/S.B70/S.C9", "--model", "GA", "-p", file)
    known.pop("MISSPELLED-PICK", None)
    assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1) and err.startswith(f"cachesim: {file}:")
    assert hint in err


@pytest.mark.part(3)
@pytest.mark.parametrize("command", ["run", "why", "bisect", "export"])
def test_a_file_without_its_ending_is_not_run_as_a_word(capsys, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    more = {"why": ("0",), "export": ("--to", "issue")}.get(command, ())
    would = "a word 'agent' of 2 tokens would be run: add >ANSWER or /REQUEST"
    none = (exits.BAD_INPUT, "", f"cachesim: no such file: 'agent2' ({would})\n")
    assert call(capsys, command, "agent2", *more) == none
    for name in ("agent2.log", "agent2.toml", "agent20.log", "agent"):
        (tmp_path / name).touch()
    there = f"cachesim: no such file: 'agent2' (did you mean agent2.log, agent2.toml? {would})\n"
    assert call(capsys, command, "agent2", *more) == (exits.BAD_INPUT, "", there)


def test_a_word_of_one_letter_or_with_an_answer_or_a_second_request_is_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for line in ("A20", "agent2>r4", "agent2/B3"):
        assert call(capsys, "run", line)[0] == exits.HOLDS
    (tmp_path / "A20.toml").touch()
    assert "did you mean A20.toml? a word 'A' of 20 tokens" in call(capsys, "run", "A20")[2]


@pytest.mark.parametrize(("argv", "hint"), [
    (("run", "A20", "-p", "lateest"), "did you mean 'latest'?"),
    (("fuzz", "-p", "lateest", "--examples", "1"), "did you mean 'latest'?"),
    (("profiles", "show", "lateest"), "did you mean 'latest'?"),
    (("run", "A20", "-p", "vlm"), "did you mean 'vllm'?"),
    (("memory", "--model", "lama-3"), "did you mean 'llama-3'? or give the path"),
    (("memory", "lama-3"), "did you mean 'llama-3'? or give the path"),
    (("memory", "--modle", "llama-3"), "did you mean '--model'?"),
])  # fmt: skip
def test_the_nearest_name_is_suggested(capsys, argv, hint):
    code, out, err = call(capsys, *argv)
    assert (code in (exits.BAD_INPUT, exits.NOTHING), out, err.count("\n")) == (True, "", 1)
    assert hint in err


def test_a_file_without_its_ending_in_a_folder_is_noted(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A4").mkdir()
    (tmp_path / "A4" / "B5.log").touch()
    assert "did you mean A4/B5.log?" in call(capsys, "run", "A4/B5")[2]
    for line in ("A4/B6", "A4.B5", "A4>a2/A.a", "A4/B5/C6"):
        code, _, err = call(capsys, "run", line)
        assert code == exits.HOLDS and "did you mean" not in err


@pytest.mark.parametrize("argv", [("--memory", "16GiB"), ("--memory", "16"), ("--gib", "16"), ("--memory=16384MiB",),
                                  ("--gib=16G",)])  # fmt: skip
def test_the_memory_has_the_spelling_of_other_commands(capsys, argv):
    want = call(capsys, "memory", "qwen3-next", "-np", "2", "--memory", "16GiB", "--json")
    assert call(capsys, "memory", "qwen3-next", "-np", "2", *argv, "--json") == want
    for model in (("--model", "qwen3-next"), ("--model=qwen3-next",)):
        assert call(capsys, "memory", *model, "-np", "2", *argv, "--json") == want
    assert main(["memory", "--model"]) == exits.BAD_INPUT


def test_a_file_that_is_not_a_workload_is_called_so(capsys, tmp_path):
    for text in ("{}", "[1]", '{"a":\n 1}', "5", '"x"'):
        (tmp_path / "a.json").write_text(text)
        code, _, err = call(capsys, "workload", tmp_path)
        assert code == exits.BAD_INPUT and err.count("\n") == 1, text
        assert "a.json" in err and "block_size" not in err, (text, err)
