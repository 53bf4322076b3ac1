"""Tests of runs that exceed a limit: answered requests are printed, and the others are not taken for correct."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.notation.tree import LineRequest, Piece
from cachesim.scenarios.request_spec import CERTAIN, make_steps

LINE = "A60/A.B9/A.C9/A.D9/A.E9"


@pytest.mark.parametrize("command", [["run", LINE], ["run", LINE, "-p", "b9518", "-p", "b10587"]])
def test_the_requests_before_the_limit_are_printed(capsys, command):
    assert main([*command, "--model", "A", "--limit", "tokens=85"]) == exits.UNDECIDED
    out, _ = capsys.readouterr()
    text = " ".join(out.split())
    assert text.count("requests 3 to 4") == 1 and "--limit tokens=N" in text
    assert "2 requests not run" in text and "0 OK" in text


def test_json_has_the_number_and_the_limit(capsys):
    assert main(["run", LINE, "--model", "A", "--limit", "tokens=85", "--json"]) == exits.UNDECIDED
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["holds"], run["verdict"], run["not_run"], len(run["requests"])) == (None, "UNDECIDED", 2, 3)
    assert "--limit tokens" in run["limit"]


def test_a_wrong_answer_before_the_limit_is_wrong(capsys):
    wrong = ["run", "S40.A20/S.A>3/B9@0/S.A.C5", "-p", "ik_llama@1889-base", "--model", "GA", "--json"]
    assert main(wrong) == exits.BROKEN
    (whole,) = json.loads(capsys.readouterr().out)["runs"]
    more = [wrong[0], wrong[1] + "/D900", *wrong[2:], "--limit", "tokens=400"]
    assert main(more) == exits.BROKEN
    (part,) = json.loads(capsys.readouterr().out)["runs"]
    assert (part["broken"], part["not_run"]) == (whole["broken"], 1)


def test_before_any_answer_the_run_is_refused(capsys):
    assert main(["run", LINE, "--model", "A", "--limit", "tokens=5"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and "request 0: " in err


@pytest.mark.parametrize("command", ["run", "why", "diff"])
def test_answers_that_are_too_many_are_refused_before_the_run(capsys, tmp_path, command):
    line = "/".join(["A5>200", *["A>200"] * 89])
    file = tmp_path / "many.toml"
    file.write_text("id='many'\ntitle='x'\nwhy='x'\nsource=['cachesim']\nengine='llama_cpp'\nmodel='A'\n"
                    "profiles=['llama_cpp@b10587']\n[words]\nA=5\n"
                    + "[[request]]\nprompt='A'\nn_predict=200\n" * 100)  # fmt: skip
    words = {"why": ["why", line, "0"], "run": ["run", str(file)],
             "diff": ["diff", line, "-p", "b9518", "-p", "b10587"]}[command]  # fmt: skip
    assert main(words) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    most = "20,000" if command == "run" else "18,000"
    assert out == ""
    assert most in err and "16,384" in err and "--limit sampled=N" in err


def test_an_answer_counts_up_to_what_is_certain():
    """A context or the client may end a longer answer: the run decides."""
    words = {"A": 5}
    long = LineRequest((Piece("A", False, None, None),), n_predict=2_000)
    make_steps([long] * (16_384 // CERTAIN), words)
    make_steps([long._replace(cancel_after=9)] * 400, words)
    make_steps([long._replace(n_predict=-1)] * 1_000, words)
    with pytest.raises(BadInput, match="--limit sampled"):
        make_steps([long] * (16_384 // CERTAIN + 1), words)
