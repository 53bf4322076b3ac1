"""A value of 100,000 letters makes a short line, whatever it was given as."""

from __future__ import annotations

import pytest

from cachesim.cli.main import main

LONG = "x" * 100_000
LINES = {
    "command": [LONG],
    "option": ["run", "A4", f"--{LONG}"],
    "model": ["run", "A4", "--model", LONG],
    "model of layers": ["run", "A4", "--model", "A" * 100_000],
    "profile": ["run", "A4", "-p", LONG],
    "set": ["run", "A4", "--set", LONG],
    "set a key": ["run", "A4", "--set", f"{LONG}=1"],
    "set a number": ["run", "A4", "--set", f"ctx_size={LONG}"],
    "set digits": ["run", "A4", "--set", f"ctx_size={'9' * 100_000}"],
    "word": ["run", LONG],
    "slice": ["run", f"{LONG}4[1:1]"],
    "braces": ["run", f"A4{{{LONG}}}"],
    "an action": ["run", f"A4/{{{LONG}}}"],
    "a file of an action": ["run", f"A4/{{save@0 {LONG}}}/{{restore@0 {LONG}y}}"],
    "role": ["run", f"{LONG}:A4", "-p", "mlx_lm@0.32.2"],
    "number": ["run", "A4", "--limit", f"tokens={LONG}"],
    "jobs": ["run", "x.toml", "-j", LONG],
    "run a path": ["run", f"/{LONG}"], "replay": ["replay", LONG],
    "why which": ["why", "llama-24143-entry-removed-dense", LONG], "bisect": ["bisect", LONG],
    "bisect a long piece": ["bisect", "A4/" + "B" * 300],
    "explain": ["explain", LONG],
    "profiles": ["profiles", LONG], "profiles show": ["profiles", "show", LONG],
    "profiles diff": ["profiles", "diff", LONG, LONG + "y"],
    "tries": ["shrink", "A4", "--tries", LONG],
    "property": ["fuzz", "--property", LONG], "fuzz a model": ["fuzz", "--model", LONG],
    "mode": ["fuzz", "--mode", LONG],
    "a NUL": ["run", "a\0b"], "a name of bytes": ["run", "\udcff" * 300],
}


CASE = """id = "a"
title = "a"
source = ["cachesim"]
why = "a"
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b10587"]
[words]
A = 4
[[request]]
prompt = "A"
"""


@pytest.mark.parametrize("name", LINES)
def test_a_long_value_makes_a_short_line(capsys, name):
    assert main(LINES[name]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and len(line) < 700
    assert "x" * 256 not in line


def test_an_integer_that_cannot_be_written(tmp_path, capsys):
    """A hexadecimal number of TOML may have more digits than Python writes."""
    file = tmp_path / "a.toml"
    for line in ("n_predict = 0x" + "f" * 5000, "n_keep = 0x" + "f" * 5000, "drafts = [[0x" + "f" * 5000 + ", 1]]"):
        file.write_text(f"{CASE}{line}\n")
        assert main(["run", str(file)]) == 2
        assert len(capsys.readouterr().err) < 500
    file.write_text(file.read_text().replace("[words]", "[server]\nctx_size = 0x" + "f" * 5000 + "\n[words]"))
    assert main(["run", str(file)]) == 2
    assert "ctx_size is an integer of 20000 bits, it must lie between" in capsys.readouterr().err
