"""The two servers of a recorder, which are given: when each is started, stopped and asked, and what is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.engines.llama_cpp.log_events import IDLE, Entry
from cachesim.tools.live.llama_server import recorder as module
from cachesim.tools.live.llama_server.process import ProcessEnd, ServerEnded
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.recorder import BASE, Recorder
from cachesim.tools.live.llama_server.server import LlamaServer, ServerStart, ServerStuck
from cachesim.tools.live.llama_server.tasks import ServerTask

START = ServerStart(Path("bin"), Path("tiny-A.gguf"), ("-np", "1"), "b11549")
SCALES = [{"id": 0, "scale": 0.5}]
TIMINGS = {"cache_n": 1, "prompt_n": 2, "predicted_n": 2}


def answer(*tokens, **more):
    body = {"id_slot": 0, "tokens_evaluated": 3, "tokens_cached": 2 + len(tokens), "truncated": False,
            "stop_type": "limit", "tokens": [*tokens], "timings": TIMINGS, **more}  # fmt: skip
    return HttpReply(200, body)


class GivenServer:
    """Server that answers with the replies of its kind: ``hot`` or ``cold``; an exception is raised."""

    def __init__(self, world, name, start, listen, kind):
        self.world, self.name, self.start, self.listen = world, name, start, listen
        self.is_logged, self.one_slot, self.facts = kind.is_logged, True, {"n_slots": 1}
        self.process = SimpleNamespace(group=len(world.started))
        self.client = self

    def complete(self, body):
        self.world.asked.append((self.name, body))
        reply = self.world.replies[self.name].pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def set_adapters(self, scales):
        self.world.asked.append((self.name, scales))
        return HttpReply(200, {"success": True})

    def post(self, path, body):
        self.world.asked.append((self.name, path, body))
        return HttpReply(200, {"n": 1})

    def slot(self, *words):
        self.world.asked.append((self.name, *words))
        return HttpReply(200, {"n_saved": 3})

    def await_answers(self):
        if self.world.is_stuck:
            raise ServerStuck

    def settled(self):
        self.world.asked.append((self.name, "settled"))
        if self.world.is_stuck:
            raise ServerStuck
        return [Entry("I", None, None, IDLE)]

    def taken(self):
        return []

    def died(self):
        return ProcessEnd(-6, ("a.cpp:1: no",))

    def stop(self):
        self.world.stopped.append(self.name)


@pytest.fixture
def world(monkeypatch):
    """What is started, stopped and asked; ``replies`` of each server."""
    found = SimpleNamespace(started=[], stopped=[], asked=[], replies={"hot": [], "cold": []}, is_stuck=False)

    def run(start, slots, log, listen=True, kind=LlamaServer):
        name = log.name.removesuffix(".log")
        found.started.append((name, start.flags, listen, kind))
        return GivenServer(found, name, start, listen, kind)

    monkeypatch.setattr(module, "run_server", run)
    return found


def ask(prompt=(1, 2), n_predict=2, **more):
    return {"op": "completion", "request": {"prompt": [*prompt], "n_predict": n_predict, **more}}


def names(world):
    return [one[0] for one in world.started]


def test_the_cold_server_has_other_flags_and_its_log_is_not_read(world):
    with Recorder(START, server=QuietServer) as recorder:
        assert recorder.groups() == [1, 2]
    hot, cold = world.started
    assert hot == ("hot", ("-np", "1"), True, QuietServer) and cold[2:] == (False, QuietServer)
    assert cold[1] == ("-np", "1", "--cache-ram", "0", "--ctx-checkpoints", "0", "-lv", "1")
    assert world.stopped == ["hot", "cold"] and recorder.groups() == []


def test_a_recorder_that_cannot_start_its_cold_server_stops_the_other(world, monkeypatch):
    run = module.run_server

    def refuse(start, slots, log, listen=True, kind=LlamaServer):
        if log.name == "cold.log":
            raise BadInput("no memory")
        return run(start, slots, log, listen, kind)

    monkeypatch.setattr(module, "run_server", refuse)
    with pytest.raises(BadInput, match="no memory"):
        Recorder(START)
    assert world.stopped == ["hot"]


def test_another_recording_restarts_the_server_and_keeps_the_cold_one(world):
    with Recorder(START) as recorder:
        recorder.reset()
        assert names(world) == ["hot", "cold", "hot"] and world.stopped == ["hot"]


def test_a_change_of_adapters_holds_for_both_servers_until_a_restart(world):
    with Recorder(START) as recorder:
        step = recorder.play({"op": "lora", "request": {"set": SCALES}})
        assert world.asked == [("hot", SCALES), ("hot", "settled"), ("cold", SCALES)]
        assert step["response"] == {"status": 200, "success": True}
        world.replies = {"hot": [answer(5, 6)], "cold": [answer(5, 7), answer(5, 6)]}
        world.asked.clear()
        found = recorder.play(ask())
        assert [one for one in world.asked if one[1] == SCALES] == [("cold", SCALES)]     # the fresh process
        assert found["cold"] == {"equal": True, "confirmed_fresh_process": True} and recorder.inexact == []
        recorder.play({"op": "restart"})
        assert names(world) == ["hot", "cold", "cold", "hot", "cold"]
        recorder.play({"op": "restart"})
        assert names(world)[5:] == ["hot"]


def test_a_restart_with_other_flags_restarts_both(world):
    with Recorder(START) as recorder:
        step = recorder.play({"op": "restart", "flags": ["-c", "64"]})
        assert (step["events"], step["server"]) == ([], {"n_slots": 1})
        assert [one[1][:2] for one in world.started[2:]] == [("-c", "64"), ("-c", "64")]
        recorder.play({"op": "restart"})
        assert [one[:2] for one in world.started[4:]] == [("hot", ("-c", "64"))]
    assert recorder.trace()["flags"] == ["-np", "1"]


def test_without_a_cold_server_only_the_recorded_one_is_asked(world):
    with Recorder(START, cold=False) as recorder:
        world.replies["hot"] = [answer(5, 6)]
        assert "cold" not in recorder.play(ask())
        recorder.play({"op": "lora", "request": {"set": SCALES}})
        recorder.play({"op": "restart", "flags": []})
    assert names(world) == ["hot", "hot"]


def test_a_cold_server_that_is_lost_is_started_again_and_its_answer_is_missing(world):
    with Recorder(START) as recorder:
        world.replies = {"hot": [answer(5, 6), answer(5, 6)], "cold": [ConnectionLost("gone"), answer(5, 6)]}
        assert "cold" not in recorder.play(ask())
        assert names(world) == ["hot", "cold", "cold"]
        assert recorder.play(ask())["cold"] == {"equal": True}


def test_a_cold_server_that_refuses_gives_no_comparison(world):
    with Recorder(START) as recorder:
        world.replies = {"hot": [answer(5, 6), HttpReply(400, {})], "cold": [HttpReply(400, {})]}
        assert "cold" not in recorder.play(ask())
        assert recorder.play(ask())["response"] == {"status": 400, "error": {}}
        assert [one[0] for one in world.asked if one[1] != "settled"] == ["hot", "cold", "hot"]


def test_an_answer_that_differs_twice_is_inexact(world):
    with Recorder(START) as recorder:
        world.replies = {"hot": [answer(5, 6)], "cold": [answer(5, 7), answer(4, 7)]}
        found = recorder.play(ask())
    assert found["cold"] == {"equal": False, "first_diff": 0, "tokens": [4, 7], "confirmed_fresh_process": True}
    assert recorder.inexact == [{"i": 0, "shifted": False, "equal": False, "first_diff": 0}]


def test_without_a_second_cold_answer_the_first_counts(world):
    with Recorder(START) as recorder:
        world.replies = {"hot": [answer(5, 6)], "cold": [answer(5, 7), HttpReply(503, {})]}
        found = recorder.play(ask())
    assert found["cold"] == {"equal": False, "first_diff": 1, "tokens": [5, 7], "confirmed_fresh_process": False}


def test_each_of_several_completions_is_compared(world):
    both = HttpReply(200, [answer(5, 6).body, answer(5, 8, index=1).body])
    with Recorder(START) as recorder:
        world.replies = {"hot": [both], "cold": [answer(5, 6), answer(5, 6)]}
        found = recorder.play(ask(n_cmpl=2))
    [child] = found["response"]["completions"]
    assert found["cold"] == {"equal": True} and (child["index"], child["cold"]["first_diff"]) == (1, 1)
    assert recorder.inexact == [{"i": 0, "child": 1, "shifted": False, "equal": False, "first_diff": 1}]


def far_answer(logprob):
    return answer(5, completion_probabilities=[{"top_logprobs": [{"id": 5, "logprob": logprob}]}])


@pytest.mark.parametrize(("rounding", "is_inexact"), [(0.25, False), (0.2, True)])
def test_a_difference_of_log_probabilities_up_to_the_rounding_is_exact(world, rounding, is_inexact):
    with Recorder(START, rounding=rounding) as recorder:
        world.replies = {"hot": [far_answer(-1.0)], "cold": [far_answer(-1.25)]}
        assert recorder.play(ask())["cold"] == {"equal": True, "max_dlogprob": 0.25}
    assert recorder.inexact == [{"i": 0, "shifted": False, "equal": True, "max_dlogprob": 0.25}] * is_inexact


def test_a_request_that_is_no_step_waits_until_the_server_is_idle(world):
    with Recorder(START, cold=False) as recorder:
        body = {"content": "x"}
        assert recorder.post("/tokenize", body).body == {"n": 1} and recorder.steps == []
    assert world.asked == [("hot", "/tokenize", body), ("hot", "settled")]


def test_a_slot_operation_without_a_file_has_an_empty_name(world):
    with Recorder(START) as recorder:
        step = recorder.play({"op": "slot", "request": {"action": "erase", "id_slot": 1}})
        recorder.play({"op": "slot", "request": {"action": "save", "id_slot": 0, "filename": "f"}})
    assert [one for one in world.asked if one[1] != "settled"] == [("hot", "erase", 1, ""), ("hot", "save", 0, "f")]
    assert step["response"] == {"status": 200, "n_saved": 3} and (step["i"], len(recorder.steps)) == (0, 2)


@pytest.mark.parametrize("error", [ConnectionLost("gone"), ServerEnded(ProcessEnd(-6, ("a.cpp:1: no",)))])
@pytest.mark.parametrize("kind", [LlamaServer, QuietServer])
def test_a_server_that_ends_is_stopped_and_only_a_restart_follows(world, error, kind):
    with Recorder(START, server=kind) as recorder:
        world.replies["hot"] = [error]
        step = recorder.play(ask())
        assert step["died"] == {"error": str(error), "returncode": -6, "fatal": ["a.cpp:1: no"], "frames": []}
        assert world.stopped == ["hot"] and recorder.groups() == [2] and "response" not in step
        assert recorder.inexact == [{"i": 0, "died": True, "shifted": False}]
        with pytest.raises(BadInput, match="only a restart can follow"):
            recorder.play(ask())
        recorder.play({"op": "restart"})
        assert names(world) == ["hot", "cold", "hot"] and world.stopped == ["hot"]


def test_a_server_that_is_stuck_is_stopped(world):
    with Recorder(START, cold=False) as recorder:
        world.replies["hot"], world.is_stuck = [answer(5)], True
        step = recorder.play(ask())
        assert (step["stuck"], world.stopped, recorder.groups()) == (True, ["hot"], [])


def test_the_header_of_a_recording(world):
    with Recorder(START, cold=False) as recorder:
        logged = recorder.trace("x", note="n")
    assert {name: logged[name] for name in logged if name not in ("steps", "inexact")} == {
        "engine": "llama.cpp", "commit": "b11549", "model": "tiny-A.gguf", "name": "x", "workload": "x", "seed": 0,
        "note": "n", "flags": ["-np", "1"], "base_flags": [*BASE], "env": {}, "server": {"n_slots": 1}}  # fmt: skip
    with Recorder(START, cold=False, server=QuietServer) as recorder:
        assert recorder.trace()["log"] is False


@pytest.mark.parametrize(("tasks", "numbers"), [([7], [None]), ([7, 8], [0, 1])])
def test_a_request_has_the_number_of_its_task_only_among_several(monkeypatch, tasks, numbers):
    launched = [{"ev": "launch", "task": task, "is_child": 0} for task in tasks]
    monkeypatch.setattr(module, "read_event", lambda entry: entry)
    monkeypatch.setattr(module, "read_tasks", lambda said: {task: ServerTask(slot=0, n_prompt=2) for task in tasks})
    monkeypatch.setattr(module, "refused_tasks", lambda said, sent: 0)
    members = [ask() for _ in tasks]
    assert Recorder._name_tasks(None, members, [None] * len(tasks), launched) == tasks
    assert [member.get("task") for member in members] == numbers


def test_a_cold_server_that_cannot_be_started_again_is_not_running(world, monkeypatch):
    with Recorder(START) as recorder:
        run = module.run_server

        def refuse(start, slots, log, listen=True, kind=LlamaServer):
            raise BadInput("no memory")

        world.replies = {"hot": [answer(5, 6)], "cold": [ConnectionLost("gone")]}
        monkeypatch.setattr(module, "run_server", refuse)
        with pytest.raises(BadInput, match="no memory"):
            recorder.play(ask())
        assert recorder.groups() == [1] and world.stopped == ["cold"]
        monkeypatch.setattr(module, "run_server", run)


def test_a_server_that_cannot_be_restarted_is_stopped_once(world, monkeypatch):
    def refuse(start, slots, log, listen=True, kind=LlamaServer):
        raise BadInput("no memory")

    with Recorder(START) as recorder:
        monkeypatch.setattr(module, "run_server", refuse)
        with pytest.raises(BadInput, match="no memory"):
            recorder.play({"op": "restart"})
        assert recorder.groups() == [2] and world.stopped == ["hot"]
    assert world.stopped == ["hot", "cold"]


def test_accepted_draft_tokens_behind_a_stop_are_asked_from_the_cold_server(world):
    """The slot has 5 tokens and the token that is evaluated next; the prompt and the answer have 4."""
    drafted = answer(5, 6, tokens_cached=5, timings={**TIMINGS, "draft_n": 4, "draft_n_accepted": 3})
    with Recorder(START) as recorder:
        world.replies = {"hot": [drafted], "cold": [answer(5, 6), answer(5, 6, 9)]}
        step = recorder.play(ask())
    assert step["response"]["tokens"] == [5, 6] and step["response"]["tokens_in_slot"] == [5, 6, 9]
    assert [body["n_predict"] for name, body in world.asked if name == "cold"] == [2, 3]


def test_files_of_servers_lie_in_a_folder_that_is_named_after_the_program(world):
    with Recorder(START) as recorder:
        assert recorder.folder.parent.name.startswith("cachesim-live-") and recorder.folder.name == "slots"
        assert recorder.log_file == recorder.folder.parent / "hot.log"
    assert not recorder.folder.parent.exists()


def test_a_request_to_a_server_that_ended_may_have_been_launched(world):
    """The last lines of its log may be missing."""
    with Recorder(START, cold=False) as recorder:
        members = [ask(), ask(cancel_after=1)]
        recorder._ended({"i": 0, "op": "parallel"}, members, ConnectionLost("gone"))
    assert not any("launched" in member for member in members)
