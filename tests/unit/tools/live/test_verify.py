"""Tests of ``cachesim verify`` against the simulator behind HTTP, and against unsuitable servers."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.gguf_models import write_model
from cachesim.tools.live.llama_server.verify import model_of
from cachesim.tools.live.llama_server.verify.case import AMPLIFIED, ROUNDING, _rounding, fitted
from cachesim.tools.live.llama_server.verify.model_of import from_file, from_server, real_vocabulary, rows
from cachesim.tools.live.player import Player
from cachesim.tools.live.token_map import TINY
from tests.live.fake import Fake
from tests.shared import SMALL
from tests.unit.tools.live.sim_server import simulated

STALE = "A5/B10/B[:3].C3>2"
REPAIRED = "llama_cpp@b11549-repaired"


def verify(capsys, url, *words):
    """Return exit code and result of a verification."""
    code = main(["verify", *words, "--url", url, "--json"])
    out = capsys.readouterr()
    return code, json.loads(out.out) if out.out else out.err


def test_the_same_rules_on_both_sides(capsys):
    with simulated("GGGA") as url:
        code, data = verify(capsys, url, STALE)
    assert code == 0 and data["same"] is True and data["profile"] == "llama_cpp@b11549"
    last = data["requests"][2]
    assert last["ours"] == last["theirs"] == {"cache_n": 1, "prompt_n": 5, "status": 200, "equal": False}


def test_sizes_in_bytes_are_said_to_be_another_models_unless_it_is_a_tiny_one(capsys):
    with simulated("GGGA") as url:
        assert not any("sizes in bytes" in note for note in verify(capsys, url, STALE)[1]["notes"])
    with simulated("GGGA", props={"model_path": "/models/big.gguf"}) as url:
        notes = verify(capsys, url, STALE, "--layers", "GGGA")[1]["notes"]
    assert "state sizes differ from the model's: evictions of the prompt cache by size are not compared" in notes


def test_a_second_play_does_not_see_the_first(capsys):
    with simulated("GGGA") as url:
        assert [verify(capsys, url, STALE)[0] for _ in range(3)] == [0, 0, 0]


def test_a_server_that_was_repaired_differs(capsys, tmp_path):
    with simulated("GGGA", REPAIRED) as url:
        code, data = verify(capsys, url, STALE)
        assert code == 1 and [row["same"] for row in data["requests"]] == [True, True, False]
        assert verify(capsys, url, STALE, "-p", REPAIRED)[0] == 0
        page = tmp_path / "x.html"
        assert main(["verify", STALE, "--url", url, "--html", str(page)]) == 1
    assert "The real server differs at request 2: " in page.read_text() and 'id="d-r2" open>' in page.read_text()
    out = capsys.readouterr().out
    assert "WRONG | right" in out and "1 | 0" in out and "=> DIFFERS" in out


def test_a_wrong_answer_within_rounding_is_undecided(capsys):
    with simulated("GGGA", far=0.01) as url:
        code, data = verify(capsys, url, STALE)
        assert code == 3 and data["same"] is None and "counts as rounding" in data["requests"][2]["why"]
        assert verify(capsys, url, STALE, "--tolerance", "0.001")[0] == 0


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
    with simulated("GGGA", options={"ctx_checkpoints": 0}) as url:
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
    with simulated("GGGA") as url:
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


@pytest.mark.parametrize("words, said", [
    (["--url", "http://127.0.0.1:9"], "connection failed: Connection refused"),
    (["--url", "ftp://x"], "begins with http://"),
    ([], "expected --url URL"),
    (["--server", "/nowhere"], "expected --url URL"),
    (["--server", "/nowhere", "--model", "/nowhere"], "no such server"),
    (["--url", "http://127.0.0.1:9", "--tolerance", "-1"], "not a number from 0"),
])  # fmt: skip
def test_bad_input(words, said, capsys):
    assert main(["verify", "S5", *words]) == 2
    assert said in capsys.readouterr().err


def test_which_layers_a_file_has(tmp_path):
    pytest.importorskip("gguf")
    write_model("W32 A", tmp_path / "tiny-W32A.gguf")
    (tmp_path / "tiny-W32A.gguf").rename(tmp_path / "gemma.gguf")
    facts = from_file(tmp_path / "gemma.gguf")
    assert facts.layers == "W32 A" and not facts.is_tiny and facts.vocabulary != TINY
    assert from_file(tmp_path / "tiny-GA.gguf")[::2] == ("GA", True)      # by its name
    (tmp_path / "none.gguf").write_text("x")
    with pytest.raises(BadInput):
        from_file(tmp_path / "none.gguf")
    with pytest.raises(BadInput, match="--layers"):
        from_server({"model_path": "/elsewhere/x.gguf"}, {})
    assert from_server({}, {"data": [{"meta": {"n_vocab": 50_000}}]}, "GA").layers == "GA"


@pytest.mark.parametrize("tokens", [3, "text", None, []])
def test_a_vocabulary_of_another_type_is_ignored(tmp_path, monkeypatch, tokens):
    keys = {"general.architecture": "qwen3next", model_of.TOKENS: tokens}
    monkeypatch.setattr(model_of, "read_gguf", lambda file, names: keys)
    assert from_file(tmp_path / "x.gguf").vocabulary == real_vocabulary(model_of.MOST)


def test_the_last_lines_of_a_server_that_ends_may_be_missing():
    scenario = load(corpus_files()["llama-repair-shift-without-layers"])
    player = Player(scenario)
    with Fake("llama_cpp@b11549", scenario.model, player.write(scenario.server)) as fake:
        list(player.run(fake.play))
        data = json.loads(json.dumps(fake.trace()))
    texts = [step.text for step in scenario.steps]
    last = data["steps"][-1]
    del last["response"]                                # a server that ends does not answer
    assert "died" in last and rows(data, "llama_cpp@b11549", texts, True)[1].same
    last["events"].pop()
    assert rows(data, "llama_cpp@b11549", texts, True)[1].same
    last["events"].insert(0, last["events"].pop())
    assert rows(data, "llama_cpp@b11549", texts, True)[1].same is False


def test_tokens_of_a_real_vocabulary_are_no_special_ones():
    assert real_vocabulary(32_000).plain[0] == 1_000
    assert max(real_vocabulary(32_000).plain) < 28_001
    assert len(real_vocabulary(256).plain) > 100


def test_fitting_says_what_it_changed():
    stale = from_line(STALE, model="GGGA", server=SMALL)
    four = {**stale.server, "parallel": 4, "kv_unified": True}
    found, said = fitted(stale, "llama_cpp@b11549", "GGGA", four)
    assert said == "every request names slot 0" and found.steps[0].request.id_slot == 0
    same, said = fitted(stale, "llama_cpp@b11549", "S", stale.server)
    assert said == "" and same.model == "S"


@pytest.mark.parametrize(("layers", "is_tiny", "largest"), [
    ("A", False, ROUNDING), ("W8 A", False, ROUNDING), ("A", True, ROUNDING), ("GGGA", True, ROUNDING),
    ("W8 A", True, AMPLIFIED), ("deepseek4", True, 2e-3), ("minimax-m3", True, 5e-2), ("minimax-m3", False, ROUNDING),
])  # fmt: skip
def test_rounding_is_larger_with_windows_and_the_newest_memories_of_tiny_models(layers, is_tiny, largest):
    assert _rounding(model_of.RealModelFacts(layers, TINY, is_tiny)) == largest


@pytest.mark.parametrize(("members", "first", "why"), [
    ([{"response": {"stop_type": "eos"}}], "", "the real model ended an answer before its last token"),
    ([{"request": {"cancel_after": 0}}], "decision 3: release there, batch here",
     "the log does not show at which batch"),
    ([{"request": {"cancel_after": 0}}], "prompt_n: 3 there, 4 here", ""),
    ([{"request": {}, "response": {"stop_type": "limit"}}], "decision 3: release there, batch here", ""),
])  # fmt: skip
def test_after_an_end_that_the_recording_does_not_show_differences_say_nothing(members, first, why):
    found = model_of._unknown_end(members, first)
    assert found.startswith(why) and bool(found) == bool(why)


def test_requests_that_neither_side_answers_are_equal():
    """The stand-in is the simulator; the conversation is that of D2, whose server spins."""
    fake = Fake("llama_cpp@b11549", "A", ["-np", "1", "-c", "8192", "-b", "128"])
    scenario = load(corpus_files()["llama-24755-busy-slot-spins"])
    for _ in Player(scenario).run(fake.play):
        pass
    found = rows(fake.trace(), "llama_cpp@b11549", [step.text for step in scenario.steps], True)
    assert [row.ours.status for row in found[2:]] == [row.theirs.status for row in found[2:]] == [-1, -1]
    assert [row.same for row in found[2:]] == [True, True]
