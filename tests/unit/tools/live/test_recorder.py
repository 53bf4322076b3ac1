"""Tests of the recorder and its cleanup, with a stand-in program for llama-server."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.live.llama_server import client
from cachesim.tools.live.llama_server import server as llama_server
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart, write_trace
from tests.unit.tools.live.stand_in import stand_in
from tests.unit.tools.live.test_process import is_running

HEAD = "3f545beccee69d9975f466ec7e45fd9aacd8ba90"
SCALES = {"op": "lora", "request": {"set": [{"id": 0, "scale": 1.0}]}}


@pytest.fixture
def start(tmp_path):
    return lambda mode="well", *flags: ServerStart(stand_in(tmp_path, mode=mode), tmp_path / "tiny-llama.gguf", flags,
                                                   HEAD, ())  # fmt: skip


def ask(prompt, n_predict=3, **more):
    return {"op": "completion", "request": {"prompt": prompt, "n_predict": n_predict, **more}}


def test_a_completion_is_recorded_with_its_events_and_its_cold_answer(start):
    with Recorder(start()) as recorder:
        step = recorder.play({**ask([1, 2, 3]), "why": "first"})
        assert recorder.post("/none", {}).status == 404 and recorder.steps == [step]
    assert step["response"] == {
        "status": 200, "id_slot": 0, "cache_n": 0, "prompt_n": 3, "predicted_n": 3, "tokens_evaluated": 3,
        "tokens_cached": 5, "truncated": False, "stop_type": "limit", "tokens": [6, 13, 27],
    }
    assert (step["i"], step["why"], step["cold"]) == (0, "first", {"equal": True, "max_dlogprob": 0.0})
    assert [event["ev"] for event in step["events"]] == ["slot_by_lru", "launch", "new_prompt", "batch", "release"]
    assert step["events"][-1] == {"ev": "release", "n_tokens": 5, "truncated": 0}
    assert not {"racy", "died", "task"} & step.keys()


def test_the_recording_can_be_read(start, tmp_path):
    with Recorder(start(), cold=False) as recorder:
        recorder.play(ask([1, 2, 3]))
        recorder.play({"op": "slot", "request": {"action": "save", "id_slot": 0, "filename": "a.bin"}})
        recorder.play({"op": "restart"})
        recorder.play({"op": "slot", "request": {"action": "erase", "id_slot": 0}})
        trace = recorder.trace("x", flags=["-c", "64"])
    assert trace["server"] == {"n_slots": 1, "n_ctx_slot": 64, "kv_unified": False, "seq_rm": "partial"}
    assert [step["response"]["status"] for step in trace["steps"] if step["op"] == "slot"] == [200, 200]
    assert trace["steps"][1]["response"] == {"status": 200, "n_saved": 3, "n_written": 40}
    assert trace["steps"][2]["server"] == trace["server"] and trace["steps"][2]["events"] == []
    file = tmp_path / "x.json"
    write_trace(trace, file)
    assert len(file.read_text().splitlines()) == 6 and json.loads(file.read_text()) == trace
    assert not {": ", ", "} & {text[at : at + 2] for text in [file.read_text()] for at in range(len(text))}
    assert [step.action for step in read_trace(file, profiles()).steps] == ["", "save", "restart", "erase"]


def test_an_answer_that_depends_on_what_was_asked_before_is_inexact(start):
    with Recorder(start("remembers")) as recorder:
        recorder.play(ask([1, 2, 3]))
        step = recorder.play(ask([1, 2, 3]))
        assert recorder.inexact == [{"i": 1, "shifted": False, "equal": False, "first_diff": 2, "max_dlogprob": 0.0}]
    assert step["cold"]["tokens"] == [6, 13, 27] and step["cold"]["confirmed_fresh_process"]


def test_a_hang_up(start):
    with Recorder(start(), cold=False) as recorder:
        step = recorder.play(ask([1, 2, 3], 40, cancel_after=2))
        at_once = recorder.play(ask([4, 5, 6], 40, cancel_after=0))
    tokens = step["response"]["tokens"]
    assert tokens[:2] == [6, 13] and step["racy"]
    assert step["response"] == {"cancelled": True, "tokens": tokens, "tokens_in_slot": [6, 13, 27],
                                "streamed_tokens_match": True}  # fmt: skip
    assert "cancel" in [event["ev"] for event in step["events"]]
    assert at_once["response"]["tokens"] == [] and at_once["events"][1]["ev"] == "launch"


def test_several_at_once(start):
    with Recorder(start(), cold=False) as recorder:
        step = recorder.play({"op": "parallel", "steps": [ask([1, 2]), ask([3, 4, 5])]})
    assert [member["i"] for member in step["steps"]] == ["0.0", "0.1"]
    assert [len(member["response"]["tokens"]) for member in step["steps"]] == [3, 3]
    assert step["racy"] and {event.get("task") for event in step["events"] if event["ev"] == "launch"} == {0, 1}


def test_a_server_that_ends(start):
    with Recorder(start()) as recorder:
        recorder.play(ask([1, 2, 3]))
        step = recorder.play(ask([13]))
        assert step["died"]["returncode"] == -signal.SIGABRT
        assert step["died"]["fatal"] == ["common.cpp:7: failed to remove sequence 0 with p0=1, p1=-1"]
        assert [event["ev"] for event in step["events"]] == ["slot_by_lru", "launch"] and "response" not in step
        assert recorder.inexact == [{"i": 1, "died": True, "shifted": False}]
        with pytest.raises(BadInput, match="only a restart"):
            recorder.play(ask([1, 2, 3]))
        recorder.play({"op": "restart"})
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]


def test_a_server_that_works_on_empty_batches_for_ever(start, monkeypatch):
    """A request that was answered before keeps its answer; the other has none."""
    monkeypatch.setattr(llama_server, "LONG", 0.1)
    monkeypatch.setattr(client, "PATIENCE", 0.02)
    with Recorder(start()) as recorder:
        recorder.play(ask([1, 2, 3]))
        step = recorder.play(ask([14]))
        assert step["stuck"] and "response" not in step and "died" not in step
        assert [event["ev"] for event in step["events"]] == ["slot_by_lru", "launch", "batch", "batch"]
        assert recorder.inexact == []
        with pytest.raises(BadInput, match="only a restart"):
            recorder.play(ask([1, 2, 3]))
        recorder.play({"op": "restart"})
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]


def test_adapters_of_the_cold_server_are_those_of_the_recorded_server(start):
    with Recorder(start("remembers")) as recorder:
        own = recorder.play(ask([3, 2, 1], lora=[{"id": 0, "scale": 0.5}]))
        done = recorder.play(SCALES)
        later = recorder.play(ask([1, 2, 3]))
        again = recorder.play(ask([1, 2, 3]))                        # wrong: compared with a fresh process, too
        recorder.play({"op": "restart"})
        last = recorder.play(ask([1, 2, 3]))
        recorder.play(SCALES)
        recorder.reset()
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]
    assert done["response"] == {"status": 200, "success": True}
    assert done["events"] == [{"ev": "lora_set", "id": 0, "scale": 1.0}]
    assert [one["response"]["tokens"][0] for one in (own, later, last)] == [56, 106, 6]
    assert [one["cold"]["equal"] for one in (own, later, again, last)] == [True, True, False, True]


def test_a_waiting_request_that_the_server_has_forgotten(start, monkeypatch):
    monkeypatch.setattr(llama_server, "DESERTED", 0.2)
    monkeypatch.setattr(client, "PATIENCE", 0.02)
    with Recorder(start(), cold=False) as recorder:
        step = recorder.play(ask([15]))
        assert step["stuck"] and "response" not in step
        with pytest.raises(BadInput, match="only a restart"):
            recorder.play(ask([1, 2, 3]))


def test_a_server_that_never_loads_its_model(start, monkeypatch, tmp_path):
    monkeypatch.setattr(llama_server, "START_WITHIN", 0.5)
    with pytest.raises(BadInput, match=r"loading the model took longer than 0\.5 s"):
        Recorder(start("unhealthy"))


def test_a_server_that_never_rests(start, monkeypatch):
    monkeypatch.setattr(llama_server, "IDLE_WITHIN", 0.1)
    with pytest.raises(BadInput, match=r"took longer than 0\.1 s"):
        Recorder(start("busy"))


def test_a_server_that_ends_when_it_starts(start):
    with pytest.raises(BadInput, match=r"ended when it started: failed to load model, 'x\.gguf'"):
        Recorder(start("stillborn"))


def test_a_port_that_somebody_else_took_meanwhile(start):
    with Recorder(start("taken"), cold=False) as recorder:
        assert recorder.play(ask([1, 2, 3]))["response"]["tokens"] == [6, 13, 27]


def test_another_server_on_our_port_is_not_taken_for_ours(start, monkeypatch):
    monkeypatch.setattr(llama_server, "START_WITHIN", 0.5)
    with pytest.raises(BadInput, match="loading the model took longer"):
        Recorder(start("other"))


# Two servers


def test_each_server_is_restarted_only_where_its_flags_or_its_adapters_change(start):
    """Their process groups show it."""
    seen = []

    def changed():
        """Return which of the two servers are new."""
        seen.append(recorder.groups())
        return [old != new for old, new in zip(*seen[-2:], strict=True)]

    with Recorder(start("well", "-np", "1")) as recorder:
        seen.append(recorder.groups())
        recorder.reset()
        assert changed() == [True, False]
        recorder.play({"op": "restart"})
        assert changed() == [True, False]
        step = recorder.play({"op": "restart", "flags": ["-c", "64"]})
        assert changed() == [True, True] and step["events"] == []
        recorder.play(SCALES)
        assert changed() == [False, False]
        recorder.play({"op": "restart"})
        assert changed() == [True, True]
        recorder.play({"op": "restart"})
        assert changed() == [True, False]
        assert recorder.trace()["flags"] == ["-np", "1"]
    assert recorder.groups() == [] and not recorder.folder.exists()


def test_a_new_recording_begins_with_an_empty_folder(start):
    with Recorder(start("remembers")) as recorder:
        recorder.play(ask([1, 2, 3]))
        (recorder.folder / "a.bin").write_text("x")
        recorder.reset()
        assert list(recorder.folder.iterdir()) == [] and recorder.steps == []
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]


def test_nothing_is_left_when_the_body_fails(start):
    with pytest.raises(KeyboardInterrupt), Recorder(start()) as recorder:
        groups, folder = recorder.groups(), recorder.folder
        assert len(groups) == 2
        raise KeyboardInterrupt
    assert not any(map(is_running, groups)) and not folder.exists()


def test_a_recorder_without_a_cold_server_compares_nothing(start):
    """A step that a real server does not run is refused."""
    with Recorder(start("remembers"), cold=False) as recorder:
        assert len(recorder.groups()) == 1
        recorder.play(ask([1, 2, 3]))
        assert "cold" not in recorder.play(ask([1, 2, 3])) and recorder.inexact == []
        with pytest.raises(BadInput, match="'chat'"):
            recorder.play({"op": "chat", "request": {}})


def test_a_recorder_whose_cold_server_does_not_start_stops_the_other(start):
    with pytest.raises(BadInput, match="failed to load model"):
        Recorder(start("alone"))
    found = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.splitlines()
    assert not any("llama-server-alone" in line and not line.startswith("Z") for line in found)


def test_a_cold_server_that_refuses_or_is_lost_gives_no_comparison_and_is_replaced(start):
    with Recorder(start()) as recorder:
        (hot, cold) = recorder.groups()
        assert "cold" not in recorder.play(ask([18])) and recorder.groups() == [hot, cold]
        assert "cold" not in recorder.play(ask([19])) and recorder.groups() != [hot, cold]
        assert recorder.play(ask([1]))["cold"]["equal"] and not is_running(cold)


def test_a_refused_request_is_recorded_with_its_status(start):
    with Recorder(start()) as recorder:
        step = recorder.play(ask([17]))
    assert (step["response"]["status"], step["response"]["error"]["code"], "cold" in step) == (400, 400, False)


def test_a_different_answer_counts_only_if_a_fresh_cold_server_gives_another_too(start):
    with Recorder(start()) as recorder:
        recorder.play(ask([1]))
        step = recorder.play(ask([20]))
    assert (step["cold"]["equal"], step["cold"]["confirmed_fresh_process"], recorder.inexact) == (True, True, [])


def test_each_of_several_completions_is_compared(start):
    with Recorder(start()) as recorder:
        step = recorder.play(ask([21], n_cmpl=2))
    [child] = step["response"]["completions"]
    assert step["cold"]["equal"] and (child["index"], child["cold"]["first_diff"]) == (1, 0)
    assert [(one["i"], one["child"], one["equal"]) for one in recorder.inexact] == [(0, 1, False)]


@pytest.mark.parametrize(("rounding", "is_inexact"), [(0.25, False), (0.2, True)])
def test_a_difference_of_log_probabilities_up_to_the_rounding_is_exact(start, rounding, is_inexact):
    with Recorder(start(), rounding=rounding) as recorder:
        assert recorder.play(ask([22]))["cold"] == {"equal": True, "max_dlogprob": 0.25}
    assert recorder.inexact == [{"i": 0, "shifted": False, "equal": True, "max_dlogprob": 0.25}] * is_inexact


def test_accepted_draft_tokens_behind_a_stop_are_asked_from_the_cold_server(start):
    """The slot has two tokens more than the client received, of which the last is not evaluated yet."""
    with Recorder(start()) as recorder:
        response = recorder.play(ask([23], 2))["response"]
    assert len(response["tokens"]) == 2 and len(response["tokens_in_slot"]) == 3
    assert response["tokens_in_slot"][:2] == response["tokens"]


def left(prompt):
    return ask(prompt, cancel_after=1)


MEMBERS = (
    ([ask([1, 2]), left([16])], [None, False]), ([ask([17]), left([16])], [None, False]),
    ([left([17]), left([16])], [None, False]), ([left([16]), left([16]), left([17])], [None, False, False]),
    ([ask([13]), left([16])], [None, None]),
)


def test_a_request_without_log_lines_was_not_launched_unless_it_was_refused_or_the_end_is_missing(start):
    """As many as were refused at their launch left the queue; a server that ends may not have logged its last lines."""
    with Recorder(start(), cold=False) as recorder:
        for members, launched in MEMBERS:
            step = recorder.play({"op": "parallel", "steps": members})
            assert [member.get("launched") for member in step["steps"]] == launched


def test_a_server_whose_log_is_not_read_is_recorded_without_events(start):
    with Recorder(start(), server=QuietServer) as recorder:
        step = recorder.play(ask([1, 2, 3]))
        assert (step["events"], step["cold"]["equal"], recorder.trace()["log"]) == ([], True, False)
        died = recorder.play(ask([13]))["died"]
        assert died["returncode"] == -signal.SIGABRT and len(recorder.groups()) == 1
