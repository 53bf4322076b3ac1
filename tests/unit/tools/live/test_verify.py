"""Tests of ``cachesim verify`` against the simulator behind HTTP, and against unsuitable servers."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main
from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from tests.shared import SMALL
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher
from tests.unit.tools.live.sim_server import simulated
from tests.unit.tools.live.stand_in import stand_in

__all__ = ["servers"]       # a fixture
STALE = "A5/B10/B[:3].C3>2"
REPAIRED = "llama_cpp@b11549-repaired"


def verify(capsys, url, *words):
    """Return exit code and result of a verification."""
    code = main(["verify", *words, "--url", url, "--json"])
    out = capsys.readouterr()
    return code, json.loads(out.out) if out.out else out.err


def test_the_same_rules_on_both_sides(capsys):
    with simulated("GA") as url:
        code, data = verify(capsys, url, STALE)
    assert code == 0 and data["same"] is True and data["profile"] == "llama_cpp@b11549"
    last = data["requests"][2]
    assert last["ours"] == last["theirs"] == {"cache_n": 1, "prompt_n": 5, "status": 200, "equal": False}


def test_sizes_in_bytes_are_said_to_be_another_models_unless_it_is_a_tiny_one(capsys):
    with simulated("GA") as url:
        assert not any("state sizes" in note for note in verify(capsys, url, STALE)[1]["notes"])
    with simulated("GA", props={"model_path": "/models/big.gguf"}) as url:
        notes = verify(capsys, url, STALE, "--layers", "GA")[1]["notes"]
    assert any("state sizes" in note for note in notes)


def test_a_second_play_does_not_see_the_first(capsys):
    with simulated("GA") as url:
        assert [verify(capsys, url, STALE)[0] for _ in range(3)] == [0, 0, 0]


def test_a_server_that_was_repaired_differs(capsys, tmp_path):
    with simulated("GA", REPAIRED) as url:
        code, data = verify(capsys, url, STALE)
        assert code == 1 and [row["same"] for row in data["requests"]] == [True, True, False]
        assert verify(capsys, url, STALE, "-p", REPAIRED)[0] == 0
        page = tmp_path / "x.html"
        assert main(["verify", STALE, "--url", url, "--html", str(page)]) == 1
    assert "request 2: " in page.read_text() and 'id="d-r2" open>' in page.read_text()


def test_a_wrong_answer_within_rounding_is_undecided(capsys):
    with simulated("GA", far=0.01) as url:
        code, data = verify(capsys, url, STALE)
        assert code == 3 and data["same"] is None and "counts as rounding" in data["requests"][2]["why"]
        assert [verify(capsys, url, STALE, "--tolerance", value)[0] for value in ("0.001", "0", "0.1")] == [0, 0, 3]


def test_lengths_are_those_of_the_real_window(capsys):
    with simulated("W8 A") as url:
        code, data = verify(capsys, url, "llama-first-window-default-gemma3")
    assert code == 0 and data["requests"][1]["ours"]["equal"] is False
    assert "lengths from 32 on changed by -24 tokens (window)" in data["notes"]


def test_what_does_not_fit_is_undecided(capsys):
    with simulated("A") as url:
        code, data = verify(capsys, url, "llama-one-token-checkpoint")
        assert code == 3 and "no lengths found" in data["undecided"] and data["requests"] == []
        assert main(["verify", "S5/{restart}/S", "--url", url]) == 3
    assert "restarts the server" in capsys.readouterr().out


def test_options_that_the_user_says(capsys):
    with simulated("GA", options={"ctx_checkpoints": 0}) as url:
        assert verify(capsys, url, STALE)[0] == 1
        assert verify(capsys, url, STALE, "--set", "ctx_checkpoints=0")[0] == 0


def test_requests_at_the_same_time_and_slots(capsys):
    with simulated("A", options={"parallel": 2}, slots_work=True) as url:
        code, data = verify(capsys, url, "S20>2/{save@0 f}/{erase@0}/{restore@0 f}/S.A3>1@0")
        assert code == 0, data
        code, data = verify(capsys, url, "S20>2/A30>2{together}")
        assert code in (0, 3) and data["same"] is not False
    with simulated("A", slots_work=False) as url:
        assert "cannot erase slots" in " ".join(verify(capsys, url, "S5")[1]["notes"])


def test_a_recording_of_a_running_server(capsys, tmp_path):
    file = tmp_path / "try.json"
    with simulated("GA") as url:
        assert main(["record", STALE, "--url", url, "--out", str(file)]) == 0
    found = replay(read_trace(file, profiles()), "provenance", lambda *_: None)
    assert found.steps_agree == 3 and found.events == 0
    assert json.loads(file.read_text())["log"] is False


@pytest.mark.parametrize("more, said", [
    ({"props": {"status": 401}}, "requires a key"),
    ({"props": {"total_slots": None}}, "not a llama-server"),
    ({"props": {"build_info": "custom"}}, "does not report its build"),
    ({"props": {"model_path": ""}}, "--layers 'W1024 A'"),
    ({"spoil": lambda reply: (200, b"<html>")}, "expected JSON as the reply"),
    ({"spoil": lambda reply: (200, {**reply, "timings": {}})}, "timings: missing key 'cache_n'"),
])  # fmt: skip
def test_servers_that_are_not_what_is_wanted(more, said, capsys):
    more = {name: (staticmethod(value) if callable(value) else value) for name, value in more.items()}
    with simulated("A", **more) as url:
        assert main(["verify", "S5", "--url", url]) == 2
    out, error = capsys.readouterr()
    assert said in error.splitlines()[-1] and not out


def test_a_server_that_lies_about_its_counts_differs(capsys):
    def lie(reply):
        return 200, {**reply, "timings": {**reply["timings"], "cache_n": reply["timings"]["cache_n"] + 1}}

    with simulated("A", spoil=staticmethod(lie)) as url:
        code, data = verify(capsys, url, "S5>1/S.A3>1")
    assert code == 1 and data["requests"][0]["first"].startswith("cache_n: 1 there, 0 here")


URL = "http://127.0.0.1:9"
PLACE = "--url"                 # the refusal names the ways to give a server


@pytest.mark.parametrize("words, said", [
    (["--url", URL], "Connection refused"), (["--url", "ftp://x"], "http://"), ([], PLACE), (["--model", "x"], PLACE),
    (["--server", "/nowhere"], PLACE), (["--server", "/nowhere", "--model", "/nowhere"], "/nowhere"),
    (["--url", URL, "--model", "y"], PLACE), (["--url", URL, "--server", "x", "--model", "y"], PLACE),
    (["--url", URL, "-p", "llama_cpp@b9518", "-p", "llama_cpp@b10587"], "one profile"),
    (["--real", "b1", "--url", URL], "--real"), (["--real", "b1", "-p", "llama_cpp@b9518"], "--real"),
    (["--real", "b1", "--model", "x"], "--real"), (["--real", "b1", "--server", "x"], "--real"),
    (["--url", URL, "--gguf", "x"], "--gguf"), (["--url", URL, "--install"], "--install"),
    *((["--url", URL, "--tolerance", value], f"'{value}'") for value in ("-0.1", "100.1", "x", "nan")),
])  # fmt: skip
def test_bad_input(words, said, capsys):
    """The server of the URL is not asked where another word is wrong."""
    assert main(["verify", "S5", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and (said == "Connection refused" or "refused" not in error)


def test_a_scenario_of_another_engine_is_refused(capsys):
    with simulated("GA") as url:
        assert main(["verify", "mlx-929-no-snapshot-below-8192-hybrid", "--url", url]) == 2
    assert "mlx_lm" in capsys.readouterr().err


def test_the_rule_set_and_the_layers_may_be_given(capsys):
    with simulated("GA", props={"build_info": "custom", "model_path": "/models/big.gguf"}) as url:
        code, data = verify(capsys, url, STALE, "--layers", "GA", "-p", "llama_cpp@b11549")
        assert (code, data["profile"], data["scenario"]) == (0, "llama_cpp@b11549", STALE)
        code, data = verify(capsys, url, "llama-lesson-attention", "--layers", "A", "-p", "llama_cpp@b10587")
    assert data["scenario"] == "llama-lesson-attention"


def test_the_user_of_a_running_server_is_told_before_its_slot_is_cleared(capsys):
    with simulated("A") as url:
        assert main(["verify", "S5", "--url", url]) == 0
    out, error = capsys.readouterr()
    assert url in error and "S5" in out


def test_a_server_is_started_with_its_model_under_the_rule_set_of_its_build(tmp_path, capsys):
    (model := tmp_path / "tiny-A.gguf").touch()
    words = ["--server", str(stand_in(tmp_path, "version: 10809 (abc)")), "--model", str(model), "--json"]
    assert main(["verify", "A5/B4", *words, "--set", "parallel=1"]) in (0, 1)
    data = json.loads(capsys.readouterr().out)
    assert data["profile"] == "llama_cpp@b10809"
    assert [(row["theirs"]["cache_n"], row["theirs"]["prompt_n"]) for row in data["requests"]] == [(0, 5), (0, 4)]


@pytest.mark.parametrize(("profile", "code"), [("llama_cpp@b9518", 0), (REPAIRED, 1)])
def test_real_builds_are_compared_each_under_its_rule_set(servers, tmp_path, capsys, profile, code):
    server = str(launcher(tmp_path, "b9713", profile))
    options = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    assert main(["verify", STALE, "--real", server, "--layers", "GA", *options, "--json"]) == code
    [data] = json.loads(capsys.readouterr().out)["real"]
    assert (data["build"], data["same"]) == ("b9713", not code)
