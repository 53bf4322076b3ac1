"""Tests of shell completion: each shell of this machine runs its script."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from cachesim.base import exits
from cachesim.base.extras import install_command
from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES, profiles

BASH = """source ./script
for COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    _cachesim cachesim "${COMP_LINE##* }"
    echo "${COMPREPLY[*]}"
done"""
FISH = """source script
for line in $argv
    echo (complete -C $line | string replace -r '\\t.*' '')
end"""
ZSH = """zmodload zsh/zpty
export ZDOTDIR=$PWD TERM=dumb
: > answers
zpty zsh zsh -i -s "${(@q)argv}"
while zpty -r zsh screen; do; done
cat answers"""
ZSHENV = """unsetopt global_rcs
autoload -Uz compinit && compinit -u -D
source ./script
lines=("$@")
insert-all() { compstate[insert]=all; compstate[list]= }
zle-line-init() {
    for line in "$lines[@]"; do
        BUFFER=$line CURSOR=$#line comppostfuncs=(insert-all)
        zle complete-word
        print -r -- "${BUFFER#"${line% *} "}" >> answers
    done
    exit
}
zle -N zle-line-init"""
"""zsh completes in its line editor only, and that wants a terminal: all answers are inserted into the line."""

ASK = {"bash": ("-c", BASH, "bash"), "zsh": ("-f", "-c", ZSH, "zsh"), "fish": ("--no-config", "-c", FISH)}
EXACTLY = {
    "cachesim prof": {"profiles"},
    "cachesim run --as": {"--as-expected"},
    "cachesim run S4 --color ": {"auto", "always", "never"},
    "cachesim fuzz --mode pro": {"provenance"},
    "cachesim run S4 -p llama_cpp@b947": {"llama_cpp@b9473"},
    "cachesim run S4 -p llama_cpp@b10587 --profile llama_cpp@b947": {"llama_cpp@b9473"},
    "cachesim profiles ": {"list", "show", "diff"},
    "cachesim profiles diff llama_cpp@b10587 llama_cpp@b947": {"llama_cpp@b9473"},
    "cachesim completion z": {"zsh"},
    "cachesim options ik_l": {"ik_llama"},
    "cachesim why llama-24143-entry-removed-d": {"llama-24143-entry-removed-dense"},
    "cachesim run mlx-1006-ragged-crash-hybrid llama-24143-entry-removed-d": {"llama-24143-entry-removed-dense"},
    "cachesim run --json llama-24143-entry-removed-d": {"llama-24143-entry-removed-dense"},
}
AMONG_OTHERS = {
    "cachesim ": {*COMMANDS},
    "cachesim fuzz --": {"--color", "--against"},
    "cachesim run S4 -": {"-p", "--model"},
    "cachesim run llama-24143-entry-removed-dense --": {"--as-expected"},
    "cachesim run S4 --model qwen3": {"qwen3-next"},
    "cachesim options ": {*ENGINES},
    "cachesim repair llama_cpp@": {"llama_cpp@latest", *(name for name in profiles() if name.startswith("llama_cpp@"))},
}
FILES = ("run S4 -p ", "run llama-24143-entry-removed-dense ", "run S4 --svg ", "fuzz --on ", "explain ")


@pytest.fixture(scope="module")
def scripts():
    """The script for every shell."""
    found = {}
    for shell in ASK:
        with redirect_stdout(io.StringIO()) as out:
            assert main(["completion", shell]) == exits.HOLDS
        found[shell] = out.getvalue()
    return found


@pytest.fixture
def ask(scripts, tmp_path):
    """What a shell answers to lines that were typed so far."""
    (tmp_path / "my_rules.py").touch()
    (tmp_path / ".zshenv").write_text(ZSHENV)

    def answers(shell, lines):
        if shutil.which(shell) is None:
            pytest.skip(f"there is no {shell} on this machine")
        (tmp_path / "script").write_text(scripts[shell])
        done = subprocess.run([shell, *ASK[shell], *lines], capture_output=True, text=True, check=True,
                              cwd=tmp_path, timeout=60)  # fmt: skip
        assert done.stderr == ""
        return dict(zip(lines, (set(line.split()) for line in done.stdout.splitlines()), strict=True))

    return answers


@pytest.mark.parametrize("shell", ASK)
def test_commands_options_and_words(ask, shell):
    assert ask(shell, EXACTLY) == EXACTLY
    found = ask(shell, AMONG_OTHERS)
    assert {line: words - found[line] for line, words in AMONG_OTHERS.items() if words - found[line]} == {}
    assert not any(word.startswith("-") for word in ask(shell, ["cachesim run "])["cachesim run "])


def test_the_script_for_zsh_is_mended(scripts):
    """Read, because most machines have no zsh: shtab may change what is replaced there."""
    assert "[[ $zsh_eval_context[-1] == (eval|file) ]]" in scripts["zsh"]
    assert '"*:scenario file' in scripts["zsh"] and '"(*)' not in scripts["zsh"] and ":dask:" not in scripts["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_files(ask, shell):
    assert all(words == {"my_rules.py"} for words in ask(shell, [f"cachesim {line}my_" for line in FILES]).values())


@pytest.mark.parametrize("breaks", ["", "COMP_WORDBREAKS=' '\n"], ids=["as it comes", "spaces"])
def test_bash_in_a_terminal(ask, tmp_path, breaks):
    """readline breaks words at signs such as @, and replaces the right part; where no word fits, it completes files."""
    typed = {line: words for line, words in EXACTLY.items() if len(words) == 1}
    typed |= {f"cachesim {line}my_": {"my_rules.py"} for line in FILES}
    assert not any(ask("bash", [f"cachesim {line}my_" for line in FILES]).values())
    keys = f"source ./script\n{breaks}cachesim() {{ echo cachesim $* >> answers; }}\n"
    master, slave = pty.openpty()
    os.write(master, "\t\n".join([keys, *typed, "exit\n"]).encode())
    env = {**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"}
    subprocess.run(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path,
                   env=env, start_new_session=True, timeout=60)  # fmt: skip
    os.close(slave)
    os.close(master)
    lines = (tmp_path / "answers").read_text().splitlines()
    assert lines == [f"{line.rpartition(' ')[0]} {''.join(words)}" for line, words in typed.items()]


@pytest.mark.parametrize("shell", ASK)
def test_every_script_names_everything(scripts, shell):
    text = scripts[shell]
    assert all(name in text for name in COMMANDS)
    assert all(word in text for word in ("llama_cpp@b10587", "llama-24143-entry-removed-dense", "qwen3-next",
        "as-expected"))
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_as_json_and_an_unknown_shell(capsys, scripts):
    assert main(["completion", "bash", "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["script"] + "\n" == scripts["bash"]
    assert main(["completion", "tcsh"]) == exits.BAD_INPUT
    assert "tcsh" in capsys.readouterr().err


def test_the_help_names_the_shells(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    assert "  bash|zsh|fish  shell to write for\n" in capsys.readouterr().out


def test_without_the_extra_a_line_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    command = install_command("completion")
    assert main(["completion", "bash"]) == exits.BAD_INPUT
    assert capsys.readouterr() == ("", f"cachesim: completion needs the package shtab ({command})\n")
    assert main(["completion", "bash", "--json"]) == exits.BAD_INPUT
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["code"], error["hint"]) == ("input", exits.BAD_INPUT, command)
