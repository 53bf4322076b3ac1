"""The completion scripts, of two small commands: every word stands where its shell reads it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cachesim.cli.shells import SHELLS, Command, ShellFlag

COMMANDS = {
    "run": Command("play files: it's `all`", (ShellFlag(("-p", "--profile"), "the rule set", "profiles"),
                                             ShellFlag(("--json",), "as JSON", ""),
                                             ShellFlag(("--out",), "where: a\\b", "file"),
                                             ShellFlag(("--mode",), "how", "=exact none")), ("ids", "ids")),
    "list": Command("say   what\nthere is", (), ("=all some",)),
}  # fmt: skip
WORDS = {"profiles": ["a@1", "b@2"], "ids": ["one", "two"]}


def script(shell):
    return SHELLS[shell](COMMANDS, WORDS)


def test_fish_has_a_line_for_each_command_argument_and_option():
    behind = "complete -c cachesim -n '__fish_seen_subcommand_from run'"
    assert script("fish").splitlines() == [
        "# fish completion for cachesim: cachesim completion fish | source",
        "complete -c cachesim -n __fish_use_subcommand -a run -d 'play files - its all'",
        f"{behind} -a 'one two'",
        f"{behind} -s p -l profile -r -a 'a@1 b@2' -d 'the rule set'",
        f"{behind} -l json -d 'as JSON'",
        f"{behind} -l out -r -a '' -d 'where - ab'",
        f"{behind} -l mode -r -a 'exact none' -d 'how'",
        "complete -c cachesim -n __fish_use_subcommand -a list -d 'say what there is'",
        "complete -c cachesim -n '__fish_seen_subcommand_from list' -a 'all some'",
    ]


def test_zsh_describes_each_command_on_one_line():
    lines = [line.strip() for line in script("zsh").splitlines()]
    assert "'run:play files - its all'" in lines and "'list:say what there is'" in lines


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("command, before, answer", [
    ("run", "-p", "a@1 b@2"), ("run", "--profile", "a@1 b@2"), ("run", "--mode", "exact none"), ("run", "--out", ""),
    ("run", "--json", "-p --profile --json --out --mode one two"), ("list", "x", "all some"), ("other", "x", ""),
])  # fmt: skip
def test_the_words_behind_a_word(shell, command, before, answer):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    table = script(shell).partition("_cachesim_words() {")[2].partition("\n}")[0]
    code = f"_cachesim_words() {{{table}\n}}\n_cachesim_words '{command}' '{before}'"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == answer.split() and done.stderr == ""
