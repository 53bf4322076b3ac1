"""Which rule sets `diff` takes."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.judging.run_data import SCHEMA

B9518, B11549, MAIN = ("-p", "llama_cpp@b9518"), ("-p", "llama_cpp@b11549"), ("-p", "ik_llama@main")


def test_log_lines_of_two_engines_are_not_compared(capsys):
    words = ["diff", "A9/A.B5", "--model", "A", *B11549, *MAIN]
    assert main([*words, "--log"]) == exits.BAD_INPUT
    assert "--log" in capsys.readouterr().err
    assert main(words) == exits.HOLDS
    assert main(["diff", "A9/A.B5", "--model", "A", *B9518, *B11549, "--log"]) == exits.HOLDS


@pytest.mark.parametrize("profiles", [B11549, (*B11549, *B11549), (*B9518, *B11549, *MAIN)])
def test_two_different_rule_sets_are_compared_and_no_other_number(capsys, profiles):
    assert main(["diff", "A9/A.B5", "--model", "A", *profiles]) == exits.BAD_INPUT
    assert "-p A -p B" in capsys.readouterr().err


def test_a_folder_has_neither_a_picture_nor_real_servers(capsys, tmp_path):
    words = ["diff", str(tmp_path), *B9518, *B11549]
    assert main([*words, "--svg", str(tmp_path / "a.svg")]) == exits.BAD_INPUT
    assert f"{tmp_path}: a picture" in capsys.readouterr().err
    assert main([*words, "--real", "b8672"]) == exits.BAD_INPUT
    assert f"{tmp_path}: diff --real" in capsys.readouterr().err


def test_a_comparison_is_printed_as_data_or_as_text(capsys):
    words = ["diff", "A9/A.B5", "--model", "A", *B9518, *B11549]
    assert main([*words, "--json"]) == exits.HOLDS
    data = json.loads(capsys.readouterr().out)
    assert [data[name]["profile"] for name in "ab"] == [B9518[1], B11549[1]]
    assert (data["schema"], data["rules"]["count"] > 0, data["observed"]) == (SCHEMA, True, [])
    assert main(words) == exits.HOLDS
    assert "(of 2)" in capsys.readouterr().out


def test_a_picture_shows_both_runs(capsys, tmp_path):
    file = tmp_path / "x.svg"
    assert main(["diff", "A9/A.B5", "--model", "A", *B9518, *B11549, "-q", "--svg", str(file)]) == exits.HOLDS
    assert file.read_text().startswith("<svg ") and all(name in file.read_text() for name in ("b9518", "b11549"))
