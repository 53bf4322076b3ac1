"""Tests of the recorder and its cleanup, with a stand-in program for llama-server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.live.llama_server import client
from cachesim.tools.live.llama_server import recorder as recorder_module
from cachesim.tools.live.llama_server import server as llama_server
from cachesim.tools.live.llama_server.process import Process, ServerEnded
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart, write_trace

FAKE = Path(__file__).with_name("fake_llama.py")
HEAD = "3f545beccee69d9975f466ec7e45fd9aacd8ba90"


@pytest.fixture
def start(tmp_path):
    binary = tmp_path / "llama-server"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    binary.chmod(0o755)
    return lambda mode="well": ServerStart(binary, tmp_path / "tiny-llama.gguf", ("--fake", mode), HEAD, ())


def ask(prompt, n_predict=3, **more):
    return {"op": "completion", "request": {"prompt": prompt, "n_predict": n_predict, **more}}


def gone(group):
    """True if all processes of a group have ended; zombies do not count."""
    for _ in range(500):
        found = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True).stdout.splitlines()
        if not any(words[0] == str(group) and not words[1].startswith("Z") for words in map(str.split, found)):
            return True
        time.sleep(0.01)
    return False


def test_a_completion(start):
    with Recorder(start()) as recorder:
        step = recorder.play({**ask([1, 2, 3]), "why": "first"})
    assert step["response"] == {
        "status": 200, "id_slot": 0, "cache_n": 0, "prompt_n": 3, "predicted_n": 3, "tokens_evaluated": 3,
        "tokens_cached": 5, "truncated": False, "stop_type": "limit", "tokens": [6, 13, 27],
    }
    assert (step["i"], step["why"], step["cold"]) == (0, "first", {"equal": True, "max_dlogprob": 0.0})
    assert [event["ev"] for event in step["events"]] == ["slot_by_lru", "launch", "new_prompt", "batch", "release"]
    assert step["events"][-1] == {"ev": "release", "n_tokens": 5, "truncated": 0}
    assert "racy" not in step and "died" not in step


def test_the_recording_can_be_read(start, tmp_path):
    with Recorder(start()) as recorder:
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


def test_without_a_cold_server_nothing_is_compared(start):
    with Recorder(start("remembers"), cold=False) as recorder:
        recorder.play(ask([1, 2, 3]))
        assert "cold" not in recorder.play(ask([1, 2, 3]))
        assert recorder.inexact == []


def test_a_hang_up(start):
    with Recorder(start()) as recorder:
        step = recorder.play(ask([1, 2, 3], 40, cancel_after=2))
    tokens = step["response"]["tokens"]
    assert tokens[:2] == [6, 13] and step["racy"]
    assert step["response"] == {"cancelled": True, "tokens": tokens, "tokens_in_slot": [6, 13, 27],
                                "streamed_tokens_match": True}  # fmt: skip
    assert "cancel" in [event["ev"] for event in step["events"]]


def test_a_hang_up_before_the_first_token(start):
    with Recorder(start()) as recorder:
        step = recorder.play(ask([1, 2, 3], 40, cancel_after=0))
    assert step["response"]["tokens"] == [] and step["events"][1]["ev"] == "launch"


def test_several_at_once(start):
    with Recorder(start()) as recorder:
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
    set_one = {"op": "lora", "request": {"set": [{"id": 0, "scale": 1.0}]}}
    with Recorder(start("remembers")) as recorder:
        own = recorder.play(ask([3, 2, 1], lora=[{"id": 0, "scale": 0.5}]))
        done = recorder.play(set_one)
        later = recorder.play(ask([1, 2, 3]))
        again = recorder.play(ask([1, 2, 3]))                        # wrong: compared with a fresh process, too
        recorder.play({"op": "restart"})
        last = recorder.play(ask([1, 2, 3]))
        recorder.play(set_one)
        recorder.reset()
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]
    assert done["response"] == {"status": 200, "success": True}
    assert done["events"] == [{"ev": "lora_set", "id": 0, "scale": 1.0}]
    assert [one["response"]["tokens"][0] for one in (own, later, last)] == [56, 106, 6]
    assert [one["cold"]["equal"] for one in (own, later, again, last)] == [True, True, False, True]


def test_each_operation_is_sent_without_the_fields_of_the_recording():
    def noted(name):
        return lambda *given: (name, *given)

    names = "slot", "set_adapters", "hang_up", "complete"
    server = SimpleNamespace(client=SimpleNamespace(**{name: noted(name) for name in names}), ear=lambda text: text)
    recorder = SimpleNamespace(_running=lambda: server, images=SimpleNamespace(wire=str))
    save, erase = {"action": "save", "id_slot": 1, "filename": "a"}, {"action": "erase", "id_slot": 0}
    members = [ask([1], 3, cancel_after=2), ask([1], 3), {"op": "slot", "request": save},
               {"op": "slot", "request": erase}, {"op": "lora", "request": {"set": [{"id": 0}]}}]  # fmt: skip
    body = {"prompt": "[1]", "n_predict": 3}
    assert [Recorder._send(recorder, member) for member in members] == [
        ("hang_up", body, 2, recorder_module.BEGUN), ("complete", body), ("slot", "save", 1, "a"),
        ("slot", "erase", 0, ""), ("set_adapters", [{"id": 0}])]  # fmt: skip


@pytest.mark.parametrize(("ended", "said"), [(False, {"launched": False}), (True, {})])
def test_a_request_without_log_lines_was_not_launched_unless_the_server_ended(ended, said):
    """A server that ends may not have logged its last launches."""
    members = [ask([1, 2, 3]), {"op": "completion", "request": {"prompt": [4], "cancel_after": 0}}]
    Recorder._name_tasks(None, members, [None, None], [], ended)
    assert members[1] == {"op": "completion", "request": {"prompt": [4], "cancel_after": 0}, **said}


@pytest.mark.parametrize(("refused", "not_launched"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3]), (3, []), (4, [])])
def test_of_requests_without_log_lines_the_first_were_refused(monkeypatch, refused, not_launched):
    monkeypatch.setattr(recorder_module, "refused_tasks", lambda said, sent: refused)
    members = [ask([1, 2, 3]), *({"op": "completion", "request": {"prompt": [4], "cancel_after": 0}} for _ in range(3))]
    assert Recorder._name_tasks(None, members, [None] * 4, []) == [None] * 4
    assert [at for at, member in enumerate(members) if "launched" in member] == not_launched


def test_the_log_of_the_cold_server_is_ignored(start, monkeypatch):
    started, run = [], recorder_module.run_server

    def noted(start, slots, log, listen=True, kind=None):
        started.append((log.name, listen, slots.name))
        return run(start, slots, log, listen, kind)

    monkeypatch.setattr(recorder_module, "run_server", noted)
    with Recorder(start()) as recorder:
        assert recorder.play(ask([1, 2, 3]))["cold"]["equal"]
    assert started == [("hot.log", True, "slots"), ("cold.log", False, "slots")]


def test_a_waiting_request_that_the_server_has_forgotten(start, monkeypatch):
    monkeypatch.setattr(llama_server, "DESERTED", 0.2)
    monkeypatch.setattr(client, "PATIENCE", 0.02)
    with Recorder(start(), cold=False) as recorder:
        step = recorder.play(ask([15]))
        assert step["stuck"] and "response" not in step
        with pytest.raises(BadInput, match="only a restart"):
            recorder.play(ask([1, 2, 3]))


def test_our_own_questions_are_not_in_the_recording_of_a_server_that_ends(start):
    """It ends after it has logged the refusal of the unknown completion."""
    with Recorder(start(), cold=False) as recorder:
        server = recorder._running()
        server.client.post(llama_server.CONTROL, {"id": "cachesim-99", "action": "reasoning_end"})
        step = recorder.play(ask([13]))
    assert "died" in step and [event["ev"] for event in step["events"]] == ["slot_by_lru", "launch"]


def test_each_of_several_that_wait_for_a_line_hears_it(start, monkeypatch):
    """Whichever thread reads the line first: a launched request is not waited for again."""
    monkeypatch.setattr(llama_server, "IDLE_WITHIN", 0.5)
    with Recorder(start(), cold=False) as recorder:
        server = recorder._running()
        ears = [server.ear(("processing task",)), server.ear(("processing task",))]
        server.client.complete({"prompt": [1, 2], "n_predict": 1})
        for ear in ears:
            ear()
        with pytest.raises(BadInput, match="took longer"):
            server.ear(("processing task",))()


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
    assert all(map(gone, groups)) and not folder.exists()


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


def test_a_binary_that_is_none(start, tmp_path):
    with pytest.raises(BadInput, match="not an executable file"):
        Recorder(ServerStart(tmp_path / "none", tmp_path / "x.gguf", (), HEAD))


def test_a_step_that_no_real_server_plays(start):
    with Recorder(start()) as recorder, pytest.raises(BadInput, match="'chat' cannot be run"):
        recorder.play({"op": "chat", "request": {}})


def test_the_process_ends_with_ours(tmp_path):
    """A killed process cannot clean up: the pipe breaks, and the guard ends the server."""
    program = tmp_path / "parent.py"
    program.write_text(
        "import os, pathlib, sys\nfrom cachesim.tools.live.llama_server.process import Process\n"
        f"p = Process(lambda port: ['/bin/sleep', '600'], pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "print(p.group, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=Path(__file__).parents[4])
    assert done.returncode == -signal.SIGKILL and gone(int(done.stdout))


def test_the_whole_group_ends(tmp_path):
    with Process(lambda port: ["/bin/sh", "-c", "sleep 600 & sleep 600"], tmp_path / "log") as process:
        assert process.returncode is None
    assert gone(process.group)


def test_a_return_code_that_is_no_signal(tmp_path):
    with (
        Process(lambda port: ["/bin/sh", "-c", "exit 3"], tmp_path / "log") as process,
        pytest.raises(ServerEnded) as ended,
    ):
        process.wait(lambda: False, 10, "it")
    assert ended.value.died.returncode == 3


def test_a_signal(tmp_path):
    with Process(lambda port: ["/bin/sh", "-c", "kill -ABRT $$"], tmp_path / "log") as process:
        with pytest.raises(ServerEnded) as ended:
            process.wait(lambda: False, 10, "it")
        assert ended.value.died.returncode == -signal.SIGABRT
    os.kill(os.getpid(), 0)
