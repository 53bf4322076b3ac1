"""Tests of ``cachesim check``: it finds faults and raises no false alarms."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main
from cachesim.tools.conformance.http_check.known_faults import NOISE
from tests.unit.tools.conformance.http_check.stand_in import Simulated, drop, hang, serving, trickle

LATEST, REPAIRED = "llama_cpp@b11549", "llama_cpp@b11549-repaired"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.ROUNDS", 1)
    monkeypatch.setattr("cachesim.tools.conformance.http_check.known_faults.NOISE", NOISE[:5])


def checked(capsys, url, *argv):
    code = main(["check", url, "--json", *argv])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out.startswith("{") and '"sections"' in out else {}, out + err


def failing(data):
    return {one["name"]: one["finding"]["line"] for one in data["properties"] if one["state"] == "failed"}


@pytest.mark.long
def test_the_stale_checkpoint_is_found_in_four_slots_with_a_rule(capsys):
    simulated = Simulated(LATEST, parallel=4, kv_unified=True)
    props = {"total_slots": 4, "default_generation_settings": {"n_ctx": 4096}}
    with serving(simulated.complete, props) as url:
        code, data, _ = checked(capsys, url, "--only", "same", "--history", "A5/B10/B[:1].C5",
                                "--requests", "200")  # fmt: skip
    assert code == 1 and "branch" in failing(data)
    assert data["rules"]["branch"][0]["rule"].startswith("LC-") and data["schema"] == 2


@pytest.mark.long
@pytest.mark.parametrize("model, slots", [("GA", 1), ("W32 A", 4)])
def test_known_faults_are_found_within_sixty_requests(capsys, model, slots):
    simulated = Simulated(LATEST, model, parallel=slots, kv_unified=True)
    props = {"total_slots": slots, "default_generation_settings": {"n_ctx": 4096}}
    with serving(simulated.complete, props) as url:
        code, data, _ = checked(capsys, url, "--requests", "60")
    assert code == 1 and failing(data)["branch"] == "Wash5/A5/B10/B[:1].C5" and data["requests"] == 60
    assert "Wash5/A5/B10/B[:1].C5" in {one["line"] for one in data["found"]} and data["found"][0]["requests"] <= 60


@pytest.mark.long
def test_a_repaired_server_raises_no_alarm(capsys):
    with serving(Simulated(REPAIRED).complete) as url:
        sections = [word for name in ("same", "reuse", "books", "known") for word in ("--only", name)]
        code, data, text = checked(capsys, url, *sections, "--requests", "350")
    assert code in (0, 3) and failing(data) == {} and data["found"] == [], text


@pytest.mark.long
def test_a_batch_split_otherwise_is_noise_even_if_only_long_prompts_show_it(capsys):
    simulated = Simulated(REPAIRED, "A")

    def complete(body):
        status, said = simulated.complete(body)
        if said.get("timings", {}).get("cache_n", 0) > 60:      # single tokens use another kernel than batches
            for one in said["completion_probabilities"][0]["top_logprobs"]:
                one["logprob"] -= 0.01
        return status, said

    with serving(complete) as url:
        code, data, text = checked(capsys, url, "--only", "same", "--history", "A69/A[:64]", "--seconds", "3")
    assert code == 0 and failing(data) == {} and 0.009 < data["measured"] < 0.011, text


@pytest.mark.long
@pytest.mark.parametrize("field", ["completion_probabilities", "tokens"])
def test_one_spoilt_answer_in_a_hundred_is_found_and_is_no_fault_of_a_cache(capsys, field):
    simulated = Simulated(REPAIRED, "A", spoil=100, field=field)
    with serving(simulated.complete) as url:
        code, data, text = checked(capsys, url, "--only", "drawn", "--requests", "450")
    assert code == 3 and failing(data) == {} and "but not when run again" in text
    finding = next(one["finding"] for one in data["properties"] if one["name"] == "repeatable")
    assert finding["expected"] != finding["got"] and finding["prompts"]


@pytest.mark.long
def test_a_small_difference_that_comes_once_decides_nothing(capsys):
    simulated = Simulated(REPAIRED, "A")

    def complete(body):
        status, said = simulated.complete(body)
        if simulated.answered == 150:
            said["completion_probabilities"][0]["top_logprobs"][0]["logprob"] -= 0.02
        return status, said

    with serving(complete) as url:
        code, data, _ = checked(capsys, url, "--only", "drawn", "--requests", "260")
    assert code == 3 and failing(data) == {}


@pytest.mark.long
def test_counts_that_cannot_be_are_a_finding(capsys):
    simulated = Simulated(REPAIRED, "A")

    def complete(body):
        status, said = simulated.complete(body)
        said["timings"]["cache_n"] += 7
        return status, said

    with serving(complete) as url:
        code, data, _ = checked(capsys, url, "--only", "books", "--requests", "150")
    assert code == 1 and {"accounting", "unseen"} <= set(failing(data))


@pytest.mark.parametrize("get, what", [
    (lambda path: (404, {}), "neither llama-server nor"), (lambda path: (200, b"hello"), "/v1/chat/completions: 404"),
])
def test_a_server_of_another_kind_is_refused(capsys, get, what):
    with serving(lambda body: (404, {}), get=get) as url:
        assert main(["check", url]) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("url", ["nowhere", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_one_line(capsys, url):
    assert main(["check", url, "--timeout", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_slots_in_use_are_not_overwritten_without_yes(capsys):
    with serving(Simulated(REPAIRED).complete, used=7) as url:
        assert main(["check", url]) == 2
        assert "--yes overwrites them" in capsys.readouterr().err
        assert main(["check", url, "--yes", "--only", "reuse"]) in (0, 3)
    capsys.readouterr()


def test_a_dry_run_sends_nothing(capsys):
    assert main(["check", "http://127.0.0.1:1", "--dryrun"]) == 0
    assert "1 noise" in capsys.readouterr().out


def test_the_number_of_requests_is_bounded(capsys):
    with serving(Simulated(REPAIRED).complete) as url:
        assert main(["check", url, "--requests", "9"]) == 3
    assert "note: stopped after 9 requests" in capsys.readouterr().out


def test_junit_is_written_too(capsys, tmp_path):
    file = tmp_path / "check.xml"
    with serving(Simulated(REPAIRED).complete) as url:
        main(["check", url, "--only", "reuse", "--junit", str(file)])
    assert "<testsuites" in file.read_text("utf-8")
    assert capsys.readouterr().out.splitlines()[0].startswith(("OK", "UNDECIDED"))


@pytest.mark.parametrize("complete, what", [
    (hang, "no reply within 0.5 seconds"), (lambda body: (200, b"<html>"), "expected JSON"),
    (lambda body: (500, {"error": {"message": "boom"}}), "status 500: boom"),
    (lambda body: (401, {}), "requires a key"), (drop, "connection failed"), (trickle, "no complete reply within"),
    (lambda body: (200, b'data: {"content": ""}\n\n'), "expected a whole reply, found a stream of events"),
    (lambda body: (200, {"error": "no"}), "no answer in the reply"), (lambda body: (200, [1]), "no answer in the re"),
   ])
def test_a_server_that_misbehaves_is_one_line(capsys, complete, what):
    with serving(complete) as url:
        code = main(["check", url, "--timeout", "0.5" if complete in (hang, trickle) else "20"])
    err = capsys.readouterr().err.splitlines()[-1]
    assert (code == 2 and what in err and url in err) or "--key" in err
