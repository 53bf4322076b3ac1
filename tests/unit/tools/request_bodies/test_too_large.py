"""Tests of imports of more than a run may simulate, and of many requests."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.request_diff import link_requests
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer
from tests.bench.work import count
from tests.unit.tools.request_bodies.made import chat


def written(tmp_path, *bodies):
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies))
    return file


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


SAID = {"short": lambda i: [f"question {i} of many"], "identical": lambda i: ["always the same question"],
        "growing": lambda i: [f"turn {k} of {i // 5}" for k in range(1, 2 * (i % 5) + 2)]}  # fmt: skip


@pytest.mark.parametrize("kind", SAID)
def test_the_work_per_request_does_not_grow_with_their_number(kind):
    """Four times as many requests take about four times as many calls."""
    calls = []
    for number in (50, 200):
        bodies = bodies_of([FoundBody("x", chat(*SAID[kind](i), system="")) for i in range(number)])
        calls.append(count(lambda some=bodies: link_requests(some, [None] * len(some), EstimatingTokenizer())).calls)
    assert calls[1] <= 5.5 * calls[0]
