"""Command ``why``: several rule sets and engines, pictures, JSON and exit codes."""

from __future__ import annotations

import json

from cachesim.base import exits
from cachesim.cli.main import main

HEAD, OLD = "llama_cpp@b10587", "llama_cpp@b9518"
LINE = ["why", "S20.A9/S.B9", "1", "--model", "A"]


def found(capsys, *words):
    code = main([*LINE, *words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_each_rule_set_has_an_answer_in_order(capsys):
    code, data, err = found(capsys, "-p", HEAD, "-p", "mlx_lm@0.32.2", "-p", OLD)
    assert [(one["profile"], one["request"], one["text"]) for one in data["why"]] == [
        (HEAD, 1, "S.B"), (OLD, 1, "S.B"), ("mlx_lm@0.32.2", 1, "S.B")]  # fmt: skip
    assert (code, data["schema"], err) == (exits.HOLDS, 3, "")


def test_the_answers_come_before_the_reasons(capsys):
    assert main([*LINE, "-p", HEAD, "-p", "mlx_lm@0.32.2"]) == exits.HOLDS
    out = capsys.readouterr().out
    answers = [out.index(f"\n{name}\n") for name in (HEAD, "mlx_lm@0.32.2")]
    assert out.startswith("try request 1 S.B\n") and answers[0] < answers[1] < out.index("LC-SLOT-SELECT")


def test_the_number_of_a_request_is_checked_for_every_scenario(capsys):
    assert main(["why", "A5", "1"]) == exits.BAD_INPUT
    assert "(0 to 0)" in capsys.readouterr().err
    assert main(["why", "A5", "-1"]) == exits.BAD_INPUT


def test_a_wrong_answer_is_exit_code_1(capsys):
    wrong = ["why", "ik-2105-last-token-evaluated-twice-hybrid", "1", "-p", "ik_llama@1889-base", "--provenance"]
    assert main(wrong) == exits.BROKEN


def test_a_picture_shows_every_rule_set_and_the_request(capsys, tmp_path):
    file = tmp_path / "x.html"
    assert main([*LINE, "-p", HEAD, "-p", "mlx_lm@0.32.2", "-q", "--html", str(file)]) == exits.HOLDS
    assert f"wrote {file}" in capsys.readouterr().err
    page = file.read_text()
    assert page.count('role="listitem"') == 4


def test_free_blocks_of_an_assumed_pool_are_said_to_be_assumed(capsys):
    main([*LINE, "-p", "vllm@latest"])
    assert "511 are free (assumed pool)" in capsys.readouterr().out
    main([*LINE, "-p", "vllm@latest", "--set", "num_gpu_blocks=20"])
    out = capsys.readouterr().out
    assert "19 are free" in out and "assumed" not in out
