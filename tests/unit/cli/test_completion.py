"""Does a shell complete what the command line knows? bash is run; the scripts for zsh and fish are read."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from cachesim.base import exits
from cachesim.cli.main import COMMANDS, main
from cachesim.engines.registry import profiles

WORDBREAKS = " \t\n\"'@><=;|&(:"


@pytest.fixture(scope="module")
def scripts():
    """The script for every shell."""
    import io
    from contextlib import redirect_stdout

    found = {}
    for shell in ("bash", "zsh", "fish"):
        out = io.StringIO()
        with redirect_stdout(out):
            assert main(["completion", shell]) == exits.HOLDS
        found[shell] = out.getvalue()
    return found


@pytest.fixture(scope="module")
def bash(scripts):
    """What bash answers to a line that was typed so far."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")

    def answers(line, breaks=WORDBREAKS):
        code = (
            f"{scripts['bash']}\nCOMP_LINE=$1; COMP_POINT=${{#1}}; COMP_WORDBREAKS=$2; _cachesim; "
            "printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(["bash", "-c", code, "bash", line, breaks], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return answers


def test_commands_and_options(bash):
    assert set(COMMANDS) <= set(bash("cachesim "))
    assert bash("cachesim prof") == ["profiles"]
    assert bash("cachesim run --as") == ["--as-expected"]
    assert "--color" in bash("cachesim fuzz --") and "-p" in bash("cachesim try S4 -")
    assert not any(word.startswith("-") for word in bash("cachesim run "))


def test_words_behind_an_option(bash):
    assert bash("cachesim try S4 --color ") == ["auto", "always", "never"]
    assert bash("cachesim fuzz --mode pro") == ["provenance"]
    assert "qwen3-next" in bash("cachesim try S4 --model qwen3")


def test_rule_sets_in_spite_of_the_at_sign(bash):
    assert bash("cachesim try S4 -p llama_cpp@base-240") == ["base-24035"]
    assert bash("cachesim try S4 --profile llama_cpp@base-240", " \t\n") == ["llama_cpp@base-24035"]
    assert {f"llama_cpp@{word}" for word in bash("cachesim repair llama_cpp@")} >= {
        name for name in profiles() if name.startswith("llama_cpp@")
    }


def test_arguments(bash):
    assert {"list", "show", "diff"} <= set(bash("cachesim profiles "))
    assert bash("cachesim completion z") == ["zsh"]
    assert "ik_llama" in bash("cachesim options ")
    assert bash("cachesim why seed-24143-den") == ["seed-24143-dense"]
    assert bash("cachesim xyzzy ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_names_everything(scripts, shell):
    text = scripts[shell]
    assert all(name in text for name in COMMANDS)
    assert all(word in text for word in ("llama_cpp@head", "seed-24143-dense", "qwen3-next", "as-expected"))
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_as_json_and_an_unknown_shell(capsys, scripts):
    assert main(["completion", "bash", "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["script"] + "\n" == scripts["bash"]
    assert main(["completion", "tcsh"]) == exits.BAD_INPUT
    assert "tcsh" in capsys.readouterr().err
