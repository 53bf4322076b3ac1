"""Tests of --real and of the options that only --real reads."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.cli.main import main

LINE = ["A20/A", "--model", "A"]


@pytest.mark.parametrize("words", [
    ["run", *LINE], ["diff", *LINE, "-p", "llama_cpp@b11549", "-p", "llama_cpp@b9231"], ["bisect", *LINE],
    ["fuzz", "--examples", "1"], ["verify", "A20/A"], ["record", "A20/A"],
], ids=lambda words: words[0])  # fmt: skip
@pytest.mark.parametrize("given", [["--gguf", "model.gguf"], ["--install"]], ids=["gguf", "install"])
def test_options_of_real_servers_need_real(capsys, words, given):
    assert main([*words, *given]) == exits.BAD_INPUT
    assert f"{given[0]} goes with --real" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["run", *LINE, "--real", "b11549"], ["bisect", *LINE, "--real", "all"], ["record", "A20/A", "--real", "b11549"],
], ids=lambda words: words[0])  # fmt: skip
def test_a_missing_model_file_is_named_before_anything_is_run(capsys, words, tmp_path):
    assert main([*words, "--gguf", str(tmp_path / "no.gguf")]) == exits.BAD_INPUT
    said = capsys.readouterr()
    assert "no.gguf: no such model" in said.err and said.out == ""
