"""Tests of the overview and of ``cachesim --help``: every command once, examples that run."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import pytest

from cachesim.base import exits
from cachesim.cli import command_list
from cachesim.cli.command_list import CARD, COMMANDS, FURTHER, GROUPS, overview
from cachesim.cli.main import main
from tests.house.checks import ROOT

LONG_NAMES = ("a" * 33, "b" * 33, "c" * 34, "d" * 33)
"""The first two fill a line of the overview; a further character, as in the next two, does not fit."""


FEW_USERS = {"merge", "record", "replay"}
"""Commands that only --help-all names."""


def help_of(capsys, option="--help"):
    with pytest.raises(SystemExit) as ended:
        main([option])
    assert ended.value.code == exits.HOLDS
    return capsys.readouterr().out


def test_without_a_command_each_command_for_most_users_is_named_once(capsys):
    assert main([]) == exits.HOLDS
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    named = [*re.findall(r"^  ([a-z]+) ", out, re.M), *out.partition("more:")[2].partition("\n\n")[0].split()]
    assert sorted(named) == sorted({*COMMANDS} - FEW_USERS)


def test_help_groups_the_commands_and_names_the_others_in_one_line(capsys):
    out = help_of(capsys)
    assert max(map(len, out.splitlines())) <= 80
    blocks = {block.partition(":")[0]: re.findall("^  ([a-z]+) ", block, re.M) for block in out.split("\n\n")}
    assert {title: tuple(blocks[title]) for title in GROUPS} == GROUPS
    rest = out.partition("\nmore: ")[2].splitlines()[0].split()
    assert sorted([*rest, *(name for names in GROUPS.values() for name in names)]) == sorted({*COMMANDS} - FEW_USERS)


def test_the_long_help_describes_the_commands_that_few_users_need(capsys):
    out = help_of(capsys, "--help-all")
    assert max(map(len, out.splitlines())) <= 80
    listed = {*re.findall("^  ([a-z]+) ", out, re.M), *out.partition("\nmore: ")[2].splitlines()[0].split()}
    assert listed == {*COMMANDS} and {name for names in FURTHER.values() for name in names} == FEW_USERS


def test_help_ends_with_the_exit_codes(capsys):
    named = re.findall(r"\b(\d+) [a-z]", help_of(capsys).partition("exit codes:")[2])
    assert [int(code) for code in named] == [exits.HOLDS, exits.BROKEN, exits.BAD_INPUT, exits.UNDECIDED, exits.NOTHING,
                                             exits.CRASH, exits.INTERRUPTED]  # fmt: skip


def test_the_other_commands_of_the_overview_fill_lines_of_at_most_78_characters(monkeypatch):
    monkeypatch.setattr(command_list, "COMMANDS", {**dict(CARD), **{name: ("", "") for name in LONG_NAMES}})
    lines = overview().splitlines()
    assert lines[lines.index("  more:    " + " ".join(LONG_NAMES[:2])) :] == [
        f"  more:    {LONG_NAMES[0]} {LONG_NAMES[1]}", f"           {LONG_NAMES[2]}", f"           {LONG_NAMES[3]}", "",
        "Options: cachesim COMMAND --help. All commands: cachesim --help-all.",
        "Shell completion: cachesim completion bash."]  # fmt: skip
    assert len(f"  more:    {LONG_NAMES[0]} {LONG_NAMES[1]}") == 78


@pytest.mark.part(3)
@pytest.mark.parametrize(("name", "example"), [one for one in CARD if one[0] not in ("watch", "check")])
def test_the_examples_of_the_overview_run(capsys, monkeypatch, tmp_path, name, example):
    """Two commands wait for a server or for more lines; the others find the log that their examples name."""
    shutil.copy(ROOT / "tests/unit/tools/server_logs/excerpt.log", tmp_path / "server.log")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example)[1:]
    assert words[0] == name
    assert main([*words, "--json"]) == exits.HOLDS
    data = json.loads(capsys.readouterr().out)
    if name == "diff":
        a, b = ([request["computed"] for request in data[side]["requests"]] for side in "ab")
        assert data["first"] and a != b
