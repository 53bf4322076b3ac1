"""Tests of servers that take only text: single-token pieces, cold answers after other prompts."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main
from cachesim.tools.conformance.http_check.known_faults import NOISE
from tests.unit.tools.conformance.http_check.stand_in import serving
from tests.unit.tools.conformance.http_check.text_stand_in import TextServer

QUICK = ["--only", "same", "--only", "books", "--requests", "1500"]
NO_NOISE = ["--tolerance", "0.005"]         # no noise is measured
HISTORY = ["--history", "A20/A[:10].B3", "--history", "A9>a3/A.a.B2"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.ROUNDS", 1)
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.NOISE", NOISE[:5])


def checked(capsys, server, *argv, histories=HISTORY):
    with serving(server.complete, get=server.get) as url:
        code = main(["check", url, "--json", *QUICK, *histories, *argv])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def states(data):
    return {one["name"]: one["state"] for one in data["properties"]}


@pytest.mark.long
@pytest.mark.parametrize("how, said", [
    ({}, "text; cold answers: after 10 other prompts"),
    ({"chat": True, "base": 9, "style": "bool"}, "/v1/chat/completions, text"),
    ({"style": "number", "named": True, "strip": False}, "/v1/completions, text"),
    ({"style": "number", "arrays": True}, "/v1/completions, token arrays"),
    ({"style": "", "keeps": 3}, "after 4 other prompts"),
    ({"keeps": 1000, "salts": True}, "cold answers: cache_salt"),
])
def test_a_sound_server_raises_no_alarm_however_it_is_asked(capsys, how, said):
    code, data, err = checked(capsys, TextServer(**how))
    found = states(data)
    assert said in err and "failed" not in found.values() and code in (0, 3), data
    assert found["branch"] == "ok" and found["accounting"] == "ok"
    reused = {one["name"]: one["reused"] for one in data["properties"]}
    assert reused["branch"] and (reused["append"] or how.get("chat") or how.get("arrays"))


@pytest.mark.long
def test_a_stale_state_is_found_in_text(capsys):
    code, data, _ = checked(capsys, TextServer(stale=True))
    assert code == 1 and states(data)["branch"] == "failed"


def test_a_server_that_stops_answering_is_a_finding_with_its_history(capsys):
    server = TextServer(dies=True, keeps=2)
    code, data, _ = checked(capsys, server, *NO_NOISE, histories=["--history", "A5>a3/A.a"])
    found = next(one for one in data["properties"] if one["name"] == "answers")
    assert code == 1 and found["finding"]["line"] == "Wash5/A5>a3/A.a" and "stopped answering" in found["why"]
    with serving(TextServer(dies=True, keeps=2).complete, get=server.get) as url:
        assert main(["check", url, *QUICK, *NO_NOISE, "--history", "A5>a3/A.a"]) == 1
    assert capsys.readouterr().out.startswith("SERVER STOPPED ANSWERING")


def test_where_nothing_is_reported_as_cached_the_report_says_that_nothing_confirms_it(capsys):
    code, data, err = checked(capsys, TextServer(reports=False, keeps=2), *NO_NOISE, histories=HISTORY[2:])
    assert "(unconfirmed: cached tokens are not reported)" in err
    assert code in (0, 3) and "failed" not in states(data).values()


def test_a_cache_that_cannot_be_emptied_is_one_line(capsys):
    with serving(TextServer(keeps=10_000).complete, get=TextServer().get) as url:
        assert main(["check", url, *QUICK]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the server's cache cannot be emptied" in last
    assert last.endswith("(use a server that supports cache_prompt or cache_salt)")
