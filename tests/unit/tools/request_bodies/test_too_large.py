"""Tests of imports of more than a run may simulate, and of many requests."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits, limits
from cachesim.cli.main import main
from cachesim.tools.request_bodies import conversations, request_diff
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer
from tests.unit.tools.request_bodies.made import chat


def written(tmp_path, *bodies):
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies))
    return file


@pytest.fixture
def lift(monkeypatch):
    """Change limits for a test."""

    def lifted(**numbers):
        for name, number in numbers.items():
            monkeypatch.setattr(getattr(limits, name), "now", number)

    return lifted


LARGE = "a b c d " * 600_000                     # 1,200,000 estimated tokens


@pytest.mark.parametrize("bodies", [[chat(LARGE, system="")], [chat(f"{LARGE}{i}", system="") for i in range(2)]])
@pytest.mark.part(3)
def test_a_prompt_that_no_run_may_hold_is_reported_without_a_simulation(tmp_path, capsys, bodies):
    file = written(tmp_path, *bodies)
    assert main(["import", str(file)]) == exits.HOLDS
    out, err = capsys.readouterr()
    text = "".join(out.split())
    place = f"{file}{':1' * (len(bodies) > 1)}"
    said = f"not simulated: {place}: request 0: 1,200,013 tokens, at most 1,000,000 tokens are allowed"
    assert said.replace(" ", "") in text
    assert "reused" not in text and "next:" not in text and err == ""


def test_what_needs_a_simulation_is_refused_before_anything_is_printed(tmp_path, capsys):
    file = written(tmp_path, chat(LARGE, system=""))
    for option in ("-o", "--svg"):
        made = tmp_path / "made"
        assert main(["import", str(file), option, str(made)]) == exits.BAD_INPUT
        out, err = capsys.readouterr()
        assert out == "" and not made.exists()
        assert err.startswith(f"cachesim: no request can be simulated: {file}: request 0: 1,200,013 tokens")


def test_requests_before_a_large_prompt_are_simulated_and_the_limit_is_named(tmp_path, capsys):
    file = written(tmp_path, chat("hello", system=""), chat(LARGE, system=""))
    assert main(["import", str(file), "--json"]) == exits.HOLDS
    found = json.loads(capsys.readouterr().out)["bodies"]["simulation"]
    assert (found["played"], found["not_played"]) == (1, 1)
    assert found["limit"].startswith(f"{file}:2: request 1: 1,200,009 tokens, at most 1,000,000")


def test_a_limit_of_the_run_names_the_request_too(tmp_path, lift):
    lift(NEW_TOKENS=30)
    file = written(tmp_path, chat("hello", system=""), chat("x" * 400, system=""))
    data, toml = import_bodies([file], ImportOptions())
    assert data["simulation"]["played"] == 1 and toml
    assert data["simulation"]["limit"].startswith(f"{file}:2: request 1: the run evaluates")
    lift(NEW_TOKENS=3)
    data, toml = import_bodies([file], ImportOptions())
    assert (data["simulation"]["played"], toml) == (0, "")


def test_a_prompt_without_tokens_is_refused_by_its_place(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(EstimatingTokenizer, "tokens", lambda self, text: range(0))
    file = written(tmp_path, chat("hello", system=""))
    assert main(["import", str(file)]) == exits.BAD_INPUT
    assert capsys.readouterr() == ("", f"cachesim: {file}: the tokenizer returns no tokens for this prompt\n")


@pytest.mark.parametrize("kind", ["short", "growing", "identical"])
def test_the_work_per_request_does_not_grow_with_their_number(tmp_path, monkeypatch, kind):
    """Counts comparisons of texts and messages: four times as many requests take about four times as many."""
    counts = []
    for many in (100, 400):
        calls = [0]

        def count(function, calls=calls):
            def counted(*args):
                calls[0] += 1
                return function(*args)

            return counted

        for module, name in ((conversations, "common_prefix"), (conversations, "message_key"),
                             (conversations, "_edited"), (request_diff, "common_prefix")):  # fmt: skip
            monkeypatch.setattr(module, name, count(getattr(module, name)))
        said = {"short": lambda i: [f"question {i} of many"], "identical": lambda i: ["always the same question"],
                "growing": lambda i: [f"turn {k} of {i // 5}" for k in range(1, 2 * (i % 5) + 2)]}[kind]  # fmt: skip
        monkeypatch.setattr(limits.REBUILT, "now", 10)
        import_bodies([written(tmp_path, *(chat(*said(i), system="") for i in range(many)))], ImportOptions())
        counts.append(calls[0])
        monkeypatch.undo()
    assert counts[1] <= 5 * counts[0]
